/**
 * GET /healthz: for the service's supervisor and for load balancers. It needs no key and has no limit: a flood must not
 * make a working service look dead.
 */
import type { Context } from 'hono';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import type { ApiEnv } from './observe.ts';
import { json, refusal } from './responses.ts';

/** Resolves while everything works; rejects with what does not. */
export type HealthCheck = () => Promise<void>;

/** 200 or 503. What is wrong goes to the log, once, not to whoever asks. */
export function health(check: HealthCheck, log: Log) {
  let known = '';
  return async (c: Context<ApiEnv>): Promise<Response> => {
    c.env.notes.route = '/healthz';
    try {
      await check();
      known = '';
      return json('{"status":"ok"}');
    } catch (error) {
      const reason = errorMessage(error);
      if (reason !== known) log.error({ err: error, request_id: c.env.notes.id }, `not healthy: ${reason}`);
      known = reason;
      return refusal(503, 'Service unavailable');
    }
  };
}
