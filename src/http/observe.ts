/**
 * Sees each request from its arrival to its answer: counts it, and gives it one line in the log.
 *
 * What a key has changed, or was refused, is an `info` line; what failed, `error`. Reads, and refusals of those
 * without a key, are `debug` lines: there can be tens of thousands a second, each costing more than the answer itself.
 */
import type { HttpBindings } from '@hono/node-server';
import type { Hono } from 'hono';
import type { Principal } from '../accounts/authenticate.ts';
import type { Log } from '../log.ts';
import type { ApiEnv } from './authentication.ts';
import { REQUEST_ID } from './request-id.ts';

/** What becomes known of a request on its way. */
export interface RequestNotes {
  readonly id: string;
  /** The pattern of its path, once an endpoint has it. */
  route: string | undefined;
  /** Whose key it carries. */
  principal: Principal | undefined;
}

export interface AnsweredRequest {
  readonly method: string;
  readonly route: string | undefined;
  readonly status: number;
  /** Until the answer was ready. */
  readonly ms: number;
}

export interface ObserveOptions {
  readonly log: Log;
  observe(request: AnsweredRequest): void;
}

export interface Observed {
  fetch(request: Request, env: HttpBindings): Promise<Response>;
}

export function observed(app: Pick<Hono<ApiEnv>, 'fetch'>, { log, observe }: ObserveOptions): Observed {
  return {
    async fetch(request, env) {
      const started = performance.now();
      const notes: RequestNotes = {
        id: String(env.outgoing.getHeader(REQUEST_ID)),
        route: undefined,
        principal: undefined,
      };
      const response = await app.fetch(request, { incoming: env.incoming, outgoing: env.outgoing, notes });
      const answered = {
        method: env.incoming.method ?? '',
        route: notes.route,
        status: response.status,
        ms: performance.now() - started,
      };
      observe(answered);
      write(log, answered, notes);
      return response;
    },
  };
}

function write(log: Log, { method, route, status, ms }: AnsweredRequest, { id, principal }: RequestNotes): void {
  const isRead = (method === 'GET' || method === 'HEAD') && status < 400;
  const level = status >= 500 ? 'error' : principal && !isRead ? 'info' : 'debug';
  if (!log.isLevelEnabled(level)) return;
  log[level](
    {
      request_id: id,
      method,
      route,
      status,
      ms: Math.round(ms * 1000) / 1000,
      account: principal?.accountId,
      key_id: principal?.keyId,
    },
    'request',
  );
}
