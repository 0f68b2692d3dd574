/**
 * Observes each request from its arrival to its response: gives it an id, counts it, and writes one line to the log.
 *
 * Failures are `error` lines. Changes and refusals with a known key are `info` lines. Reads, and refusals without a key, are
 * `debug` lines: there can be tens of thousands a second, and a line costs more than the response itself.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import type { Hono } from 'hono';
import type { Principal } from '../../rules/api-keys/authenticate.ts';
import type { Log } from '../../foundation/base/log.ts';

/** The header with the request's id, which is also in each of its log lines and audit rows. */
export const REQUEST_ID = 'x-request-id';

const SANE_ID = /^[\w.:-]{1,64}$/;

/** Facts about a request, collected while it is handled. */
export interface RequestNotes {
  readonly id: string;
  /** The pattern of its path, once an endpoint is found. */
  route: string | undefined;
  /** The owner of its key. */
  principal: Principal | undefined;
}

/** The server's bindings for a request. */
export interface Served extends HttpBindings {
  /** Lifts the server's time limit for the request, once it is known who sends it. Absent where there is no limit. */
  untimed?(): void;
  /** Called as soon as the request has shown a valid key or session. */
  authenticated?(): void;
}

export interface ApiEnv {
  Bindings: Served & { readonly notes: RequestNotes };
}

export interface AnsweredRequest {
  readonly method: string;
  readonly route: string | undefined;
  readonly status: number;
  /** The time until the response was ready. */
  readonly ms: number;
}

export type NameRequest = (incoming: IncomingMessage) => string;

/**
 * @param isProxy whether a request came from a trusted proxy, which may have given it an id already. Ids of other clients are
 * not used, since they could write anything into the log.
 */
export function requestNames(isProxy: (incoming: IncomingMessage) => boolean): NameRequest {
  // A random prefix and a counter are unique, at a fraction of the cost of a UUID.
  const prefix = randomBytes(9).toString('hex');
  let count = 0;
  return (incoming) => {
    const given = incoming.headers[REQUEST_ID];
    if (typeof given === 'string' && SANE_ID.test(given) && isProxy(incoming)) return given;
    count += 1;
    // Padded, so that responses do not differ in length by their ids.
    return `${prefix}-${count.toString(36).padStart(8, '0')}`;
  };
}

export function observed(
  app: Pick<Hono<ApiEnv>, 'fetch'>,
  { log, observe }: { log: Log; observe(request: AnsweredRequest): void },
) {
  return {
    async fetch(request: Request, { incoming, outgoing, untimed, authenticated }: Served): Promise<Response> {
      const started = performance.now();
      const id = String(outgoing.getHeader(REQUEST_ID));
      const notes = notesOf(id, authenticated);
      const response = await app.fetch(request, { incoming, outgoing, ...(untimed && { untimed }), notes });
      const { method = '' } = incoming;
      const answered = { method, route: notes.route, status: response.status, ms: performance.now() - started };
      observe(answered);
      writeLine(log, answered, notes);
      return response;
    },
  };
}

function notesOf(id: string, authenticated?: () => void): RequestNotes {
  let known: Principal | undefined;
  return {
    id,
    route: undefined,
    get principal() {
      return known;
    },
    set principal(principal) {
      known = principal;
      if (principal) authenticated?.();
    },
  };
}

function writeLine(log: Log, { method, route, status, ms }: AnsweredRequest, { id, principal }: RequestNotes): void {
  const isRead = (method === 'GET' || method === 'HEAD') && status < 400;
  const level = status >= 500 ? 'error' : principal && !isRead ? 'info' : 'debug';
  if (!log.isLevelEnabled(level)) return;
  const account = principal?.accountId;
  const key_id = principal?.keyId;
  log[level]({ request_id: id, method, route, status, ms: Math.round(ms * 1000) / 1000, account, key_id }, 'request');
}
