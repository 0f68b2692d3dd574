/**
 * Makes one attempt: a POST by got, limited in time and bytes whatever the receiver does.
 *
 * An attempt succeeds when the head of a 2xx answer arrives within 5 s, including name look-up and handshakes
 * (specification, "Success, retries, duplicates"). The status line decides even where Node's parser refuses the headers
 * after it. Redirects are not followed. The first KiB of the answer's body is kept. After 64 KiB or 1 s of body the
 * connection is closed, which does not change the outcome. URLs may have any port, and credentials, which are sent as
 * basic authentication: the guard judges only addresses.
 *
 * A receiver may close a kept connection at the moment when it is used. If it ends before a byte of the answer has
 * arrived, the same request is sent once more, on a new connection and within the same 5 s, as browsers and proxies do.
 * Nothing else is repeated here.
 */
import type { ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers';
import got from 'got';
import type { Request, Response } from 'got';
import type { Micros } from '../../foundation/base/clock.ts';
import { errorCode, errorMessage } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { type Agents, DestinationError, type GuardedAgents, HEAD_MS, isShortage } from './destination-guard.ts';
import { retryAfter } from './retry-after.ts';
import { signatureHeaders, type Signed } from './signature.ts';
import type { Socket } from 'node:net';

const BODY_MS = 1000;
const KEPT_BYTES = 1024;
/** OpenSSL's own lines (ERR_error_string(3)): the thread, the code, the library, the function, the reason, and its source's line. */
const OPENSSL_ERROR = /^(?:write EPROTO )?[\dA-F]+:error:[\dA-F]{8}:[^:]*:[^:]*:([^:]+):/;
/** The longest error text. It may repeat text from the certificate, which the receiver chooses. */
const REASON_LENGTH = 500;

export interface Outgoing extends Signed {
  readonly url: string;
  /** The upload that it is about; null for a test, and for a file that was replaced before it got a row. */
  readonly upload_id: string | null;
}

export interface Answer {
  readonly ok: boolean;
  /** Null when no answer came. */
  readonly status: number | null;
  /** From the start to the response's head or to the failure, in µs. */
  readonly latency: Micros;
  /** Why there is no answer. */
  readonly error: string | null;
  /** The first 1 KiB of the answer's body. */
  readonly response: Buffer | null;
  /** How long the receiver asks to wait before the next attempt, in µs. */
  readonly retryAfter?: Micros;
  /** Set when the destination is one that webhooks may not go to. */
  readonly isForbidden?: boolean;
  /** Set when no further attempt can succeed, because there is no URL to send to. */
  readonly isFinal?: boolean;
  /** Set when the receiver was never asked, because this machine lacked a resource (`destination-guard.ts`). */
  readonly isShortage?: boolean;
}

/** Names and values of a request's headers, except those of the connection. */
export type SentHeaders = readonly (readonly [name: string, value: string])[];

/**
 * Makes an attempt; never rejects. `at` is the wall clock. Aborting `signal` makes the attempt fail. `onRequest` gets
 * the headers of the request.
 */
export type Send = (
  delivery: Outgoing,
  at: Micros,
  signal: AbortSignal,
  onRequest?: (headers: SentHeaders) => void,
) => Promise<Answer>;

export interface Sender {
  readonly send: Send;
  /** Closes the connections that are kept open. */
  close(): void;
}

/** @param log gets the detail when a webhook may not go to its destination. */
export function createSender(agents: GuardedAgents, version: string, log?: Log): Sender {
  const client = got.extend({
    method: 'POST',
    followRedirect: false,
    decompress: false,
    throwHttpErrors: false,
    strictContentLength: false,
    retry: { limit: 0 },
    headers: { 'user-agent': `berth/${version}`, 'content-type': 'application/json' },
  });
  return {
    send(delivery, at, signal, onRequest) {
      const started = performance.now();
      if (!/^https?:$/.test(URL.parse(delivery.url)?.protocol ?? '')) {
        return Promise.resolve(noAnswer('the URL is not valid', started));
      }
      const { body } = delivery;
      // Got would end the request a turn of the event loop after its body. Until then no other request could use its
      // socket.
      const headers = {
        ...signatureHeaders(delivery, at),
        ...(delivery.upload_id !== null && { 'webhook-upload-id': delivery.upload_id }),
        'content-length': String(body.length),
      };
      const post = (agent: Agents, resend?: () => Promise<Answer>): Promise<Answer> => {
        const request = client.stream(delivery.url, { headers, agent }).end(body);
        if (onRequest) request.once('request', (sent: ClientRequest) => onRequest(headersOf(sent)));
        request.once('error', ({ cause }) => {
          if (!(cause instanceof DestinationError)) return;
          log?.info({ delivery_id: delivery.id, destination: cause.detail }, 'a webhook may not go there');
        });
        return outcome(request, { started, at, signal, resend });
      };
      return post(agents.kept, () => post(agents.fresh));
    },
    close() {
      for (const { http, https } of [agents.kept, agents.fresh]) {
        http.destroy();
        https.destroy();
      }
    },
  };
}

function headersOf(request: ClientRequest): SentHeaders {
  return request.getRawHeaderNames().map((name) => [name, String(request.getHeader(name))]);
}

interface Attempt {
  /** By the monotonic clock, in ms. */
  readonly started: number;
  /** By the wall clock. */
  readonly at: Micros;
  readonly signal: AbortSignal;
  /** Sends the request once more, on a new connection. */
  readonly resend: (() => Promise<Answer>) | undefined;
}

/** Follows the request to its end or to a limit, whichever comes first. */
function outcome(request: Request, { started, at, signal, resend }: Attempt): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const kept: Buffer[] = [];
  let received = 0;
  let raw: RawAnswer | undefined;
  let isOver = false;
  let head: Pick<Answer, 'ok' | 'status' | 'latency' | 'retryAfter'> | undefined;

  const finish = (answer: Answer | Promise<Answer>): void => {
    isOver = true;
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    // Ignore late errors of a request that was cut off.
    request.on('error', () => undefined);
    resolve(answer);
  };
  const finishWithHead = (): void => {
    if (head) finish({ ...head, error: null, response: Buffer.concat(kept).subarray(0, KEPT_BYTES) });
  };
  const cut = (reason: string): void => {
    if (head) finishWithHead();
    else finish(noAnswer(reason, started));
    request.destroy();
  };
  const abort = (): void => cut('berth stopped during this attempt');
  // Node reads sockets after it runs timers. An answer that has arrived still counts, even after a stall.
  const timeOut = (): void => void setImmediate(() => !head && cut(`no answer within ${HEAD_MS / 1000} s`));
  let timer = setTimeout(timeOut, started + HEAD_MS - performance.now());

  const flooded = (): void => cut('more than 64 KiB came before the status');
  request.once('request', (sent: ClientRequest) => (raw = watchAnswer(sent, flooded)));
  // Got listens for `upgrade`, so Node hands over the socket of a 101 answer, and nothing else would close it.
  request.once('upgrade', (_response: unknown, socket: Duplex) => {
    socket.destroy();
    head ??= { ok: false, status: 101, latency: since(started) };
    cut('');
  });
  request.on('response', ({ statusCode: status, headers }: Response) => {
    if (head) return;
    const latency = since(started);
    const requestedWait = retryAfter(status, headers['retry-after'], at + latency);
    head = { ok: isSuccess(status), status, latency, retryAfter: requestedWait };
    clearTimeout(timer);
    timer = setTimeout(() => cut(''), BODY_MS);
  });
  request.on('data', (chunk: Buffer) => {
    if (received < KEPT_BYTES) kept.push(chunk);
    received += chunk.length;
  });
  request.once('end', finishWithHead);
  request.once('error', (error) => {
    if (isOver) return;
    const status = isRefusedByParser(error.cause) ? raw?.status() : undefined;
    if (status !== undefined) head ??= { ok: isSuccess(status), status, latency: since(started) };
    if (head) finishWithHead();
    else if (resend && raw?.isUnanswered()) finish(resend());
    else {
      const isForbidden = error.cause instanceof DestinationError;
      finish({
        ...noAnswer(reasonOf(error, request.options.url?.toString() ?? ''), started),
        isForbidden,
        isShortage: isShortage(error.cause),
      });
    }
  });
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return promise;
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function isRefusedByParser(error: unknown): boolean {
  return errorCode(error)?.startsWith('HPE_') === true;
}

export function noAnswer(error: string, started = performance.now()): Answer {
  return { ok: false, status: null, latency: since(started), error: error.slice(0, REASON_LENGTH), response: null };
}

function since(started: number): Micros {
  return Math.round((performance.now() - started) * 1000);
}

const OWN_AUTHORITY = 'or the operator of berth has to trust its authority (BERTH_WEBHOOK_CA)';
const CLOSED = 'the receiver closed the connection before it had answered';

/** berth's words for codes of Node, whose messages advise on Node (its documentation of TLS, "X509 certificate error codes"), and a reason of OpenSSL. */
const REASONS: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: `TLS failed: the issuer of the receiver's certificate is unknown. The receiver has to send its intermediate certificates, too, ${OWN_AUTHORITY}`,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: `TLS failed: the authority of the receiver's certificate is not trusted. The receiver has to send all intermediate certificates, ${OWN_AUTHORITY}`,
  SELF_SIGNED_CERT_IN_CHAIN: `TLS failed: the authority of the receiver's certificate is not a public one. The receiver needs a public certificate, ${OWN_AUTHORITY}`,
  DEPTH_ZERO_SELF_SIGNED_CERT:
    'TLS failed: the receiver has a self-signed certificate. It needs a public one, or the operator of berth has to trust it (BERTH_WEBHOOK_CA)',
  CERT_HAS_EXPIRED: "TLS failed: the receiver's certificate has expired. Renew it",
  CERT_NOT_YET_VALID:
    "TLS failed: the receiver's certificate is not valid yet. Check its dates and the clock of berth's machine",
  'wrong version number':
    'TLS failed: the receiver does not answer in TLS at this port. If the port is for HTTP, the URL has to begin with http://',
};

/**
 * The reason of a failure, as text. If several addresses were tried, Node's error has no text, so the first address's
 * error is used. A failed connection is described without its address, which may be in the operator's own network.
 */
function reasonOf(error: Error, url: string): string {
  const cause: unknown = error.cause instanceof AggregateError ? error.cause.errors[0] : (error.cause ?? error);
  if (cause instanceof Error && 'syscall' in cause && cause.syscall === 'connect') return `connect ${errorCode(cause)}`;
  const code = errorCode(cause) ?? '';
  const known = REASONS[code];
  if (known !== undefined) return known;
  if (code === 'ECONNRESET') {
    return url.startsWith('http:') ? `${CLOSED}. If its port is for HTTPS, the URL has to begin with https://` : CLOSED;
  }
  const message = errorMessage(cause);
  const [, ofTls] = OPENSSL_ERROR.exec(message) ?? [];
  return ofTls === undefined ? message || error.name : (REASONS[ofTls] ?? `TLS failed: ${ofTls}`);
}

/** How much of an answer is kept. The status line comes first, except for informational answers. */
const HEAD_BYTES = 4096;
/** How much may come before the end of the head, and how much after it. The parser limits each head, but not how many are informational. */
const MOST_BYTES = 64 * 1024;

interface RawAnswer {
  /** Whether the request used a connection that an earlier one had opened, and no byte of an answer arrived on it. */
  isUnanswered(): boolean;
  /** The status in the status line (RFC 9112, section 4); undefined when there is no complete one. */
  status(): number | undefined;
}

/**
 * Watches what a connection sends in answer to one request, beside Node's parser: whether a byte came at all, the status
 * of an answer that the parser refuses, and how many bytes come. The bytes of the connection count, because chunks may have
 * any amount of framing around a body of a few bytes.
 *
 * The parser stays strict. Its refusal ends the connection, so no second reader sees bytes that it could understand
 * differently, which is what request smuggling needs. A lenient parser (`insecureHTTPParser`) would keep the connection,
 * and still refuses headers without a colon or over `maxHeaderSize`.
 *
 * Call it before the request has its socket.
 * @param flooded called when too much has come without a status, or after it.
 */
function watchAnswer(request: ClientRequest, flooded: () => void): RawAnswer {
  let text = '';
  let received = 0;
  let hasSocket = false;
  request.once('socket', (socket: Socket) => {
    hasSocket = true;
    const onData = (chunk: Buffer): void => {
      // The chunk with the end of the head may have much of the body, too.
      if (received > MOST_BYTES) flooded();
      received += chunk.length;
      if (text.length < HEAD_BYTES) text += chunk.toString('latin1', 0, HEAD_BYTES);
    };
    // Before the parser's own listener, which may end the connection.
    socket.prependListener('data', onData);
    request.once('response', () => (received = 0));
    request.once('close', () => void socket.off('data', onData));
  });
  return {
    isUnanswered: () => hasSocket && request.reusedSocket && text === '',
    status: () => statusIn(text),
  };
}

function statusIn(text: string): number | undefined {
  let rest = text;
  while (/^HTTP\/\d\.\d 1\d\d[ \r\n]/.test(rest)) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    rest = rest.slice(end + 4);
  }
  const [, status] = /^HTTP\/\d\.\d ([2-9]\d\d)[ \r\n]/.exec(rest) ?? [];
  return status === undefined ? undefined : Number(status);
}
