/**
 * One attempt: a POST, bounded in time and bytes whatever the receiver does.
 *
 * It succeeds when the head of a 2xx answer is there 5 s after the start, name look-up and handshakes included
 * (specification, "Success, retries, duplicates"). Redirects are not followed and nothing is retried here. Of the
 * answer's body the first KiB is kept; past 64 KiB or 1 s the connection is closed, which changes no outcome.
 * Any port and credentials in the URL (sent as basic authentication) are allowed: the guard judges addresses.
 *
 * Node's own client, since of a library's conveniences (redirects, retries, unpacking, refusing a status) none is
 * wanted here, and they cost several times what the request itself does.
 */
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setImmediate } from 'node:timers';
import type { Micros } from '../clock.ts';
import { errorMessage } from '../errors.ts';
import type { GuardedAgents } from './destination-guard.ts';
import { isShortage } from './shortage.ts';
import { signatureHeader } from './signature.ts';

/** Specification, "Limits": webhook response time. */
const HEAD_MS = 5000;
const BODY_MS = 1000;
const BODY_BYTES = 64 * 1024;
const KEPT_BYTES = 1024;

interface Outgoing {
  readonly id: string;
  readonly url: string;
  readonly body: Buffer;
  /** Lowercase hex. */
  readonly signature: string;
}

export interface Answer {
  readonly ok: boolean;
  /** Null when no answer came. */
  readonly status: number | null;
  /** Until the head was there, or until the attempt had failed, in µs. */
  readonly latency: Micros;
  /** Why there is no answer. */
  readonly error: string | null;
  /** The first 1 KiB of the answer's body. */
  readonly response: Buffer | null;
  /** Set when the receiver was never asked, for want of something of our own (see `shortage.ts`). */
  readonly isShortage?: boolean;
}

/** Makes the attempt; never rejects. `at` is the wall clock; aborting `signal` ends the attempt as failed. */
export type Send = (delivery: Outgoing, at: Micros, signal: AbortSignal) => Promise<Answer>;

export interface Sender {
  readonly send: Send;
  /** Closes the connections that are kept open. */
  close(): void;
}

export function createSender(agents: GuardedAgents, version: string): Sender {
  const open = (url: URL, { id, signature }: Outgoing, at: Micros): ClientRequest => {
    const headers = {
      'user-agent': `berth/${version}`,
      'content-type': 'application/json',
      'x-service-signature': signatureHeader(signature),
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at / 1_000_000)),
    };
    return url.protocol === 'https:'
      ? httpsRequest(url, { method: 'POST', agent: agents.https, headers })
      : httpRequest(url, { method: 'POST', agent: agents.http, headers });
  };
  return {
    async send(delivery, at, signal) {
      const started = performance.now();
      const url = URL.parse(delivery.url);
      if (!url || !/^https?:$/.test(url.protocol)) return noAnswer('the URL is not valid', started);
      try {
        const request = open(url, delivery, at);
        const answer = outcome(request, started, signal);
        request.end(delivery.body);
        return await answer;
      } catch (error) {
        return noAnswer(errorMessage(error), started); // credentials that cannot be decoded, say
      }
    },
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

/** Follows the request to its end or to a limit, whichever comes first. */
function outcome(request: ClientRequest, started: number, signal: AbortSignal): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const kept: Buffer[] = [];
  let received = 0;
  let head: Pick<Answer, 'ok' | 'status' | 'latency'> | undefined;

  /** The first call counts. */
  const settle = (reason: string, error?: Error): void => {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    const response = Buffer.concat(kept).subarray(0, KEPT_BYTES);
    resolve(
      head ? { ...head, error: null, response } : { ...noAnswer(reason, started), isShortage: isShortage(error) },
    );
  };
  const fail = (error: Error): void => settle(reasonOf(error), error);
  const cut = (reason: string): void => {
    settle(reason);
    request.destroy();
  };
  const abort = (): void => cut('berth stopped during this attempt');
  // After the timers Node looks at the sockets: an answer that is there already still counts, even after a stall.
  const timeOut = (): void => void setImmediate(() => !head && cut(`no answer within ${HEAD_MS / 1000} s`));
  let timer = setTimeout(timeOut, HEAD_MS);

  request.once('response', (response: IncomingMessage) => {
    const { statusCode: status = 0 } = response;
    head = { ok: status >= 200 && status < 300, status, latency: since(started) };
    clearTimeout(timer);
    timer = setTimeout(() => cut(''), BODY_MS);
    response.on('data', (chunk: Buffer) => {
      if (received < KEPT_BYTES) kept.push(chunk);
      received += chunk.length;
      if (received > BODY_BYTES) cut('');
    });
    response.once('end', () => settle(''));
    response.on('error', fail);
  });
  // Stays, since a request that was cut off may still fail.
  request.on('error', fail);
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return promise;
}

function noAnswer(error: string, started: number): Answer {
  return { ok: false, status: null, latency: since(started), error, response: null };
}

function since(started: number): Micros {
  return Math.round((performance.now() - started) * 1000);
}

/** With several addresses tried, Node's own error has no text; each of them says what happened. */
function reasonOf(error: Error): string {
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return errorMessage(cause) || error.name;
}
