/**
 * GET /healthz: for the service's supervisor and for load balancers. It needs no key and has no limit: a flood must not
 * make a working service look dead.
 */
import { errorMessage } from '../errors.ts';
import type { Context } from 'hono';
import type { Log } from '../log.ts';
import type { ApiEnv } from './authentication.ts';
import { refusal } from './error-response.ts';

/** Resolves while everything works; rejects with what does not. */
export type HealthCheck = () => Promise<void>;

/** 200 or 503. What is wrong goes to the log, once, not to whoever asks. */
export function health(check: HealthCheck, log: Log): (c: Context<ApiEnv>) => Promise<Response> {
  let known = '';
  return async (c) => {
    c.env.notes.route = '/healthz';
    try {
      await check();
      known = '';
    } catch (error) {
      const reason = errorMessage(error);
      if (reason !== known) log.error({ err: error, request_id: c.env.notes.id }, `not healthy: ${reason}`);
      known = reason;
      return refusal(503, 'Service unavailable');
    }
    return new Response('{"status":"ok"}', { headers: { 'content-type': 'application/json' } });
  };
}
