/** `GET /healthz`, without a key: for the service's supervisor and for load balancers. */
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { refusal } from './error-response.ts';

/** Resolves while everything works; rejects with what does not. */
export type HealthCheck = () => Promise<void>;

/** 200 or 503. What is wrong goes to the log, not to whoever asks. */
export function health(check: HealthCheck, log: Log): () => Promise<Response> {
  return async () => {
    try {
      await check();
    } catch (error) {
      log.error({ err: error }, `not healthy: ${errorMessage(error)}`);
      return refusal(503, 'Service unavailable');
    }
    return new Response('{"status":"ok"}', { headers: { 'content-type': 'application/json' } });
  };
}
