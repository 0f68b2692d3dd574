/**
 * Serves the app over HTTPS or, behind a proxy on this machine that terminates TLS, over plain HTTP. Every wait for a client is
 * limited, and so is every size.
 */
import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps, Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { errorCode, OperatorError } from '../../foundation/base/errors.ts';
import { urlHost } from '../../foundation/base/text.ts';
import type { TlsPair } from './certificate.ts';
import { clientUsedTls, isLoopback } from '../web/client-address.ts';
import { type ConnectionLimits, connectionLimits, Connections, limitPipelining } from './connections.ts';
import { type NameRequest, REQUEST_ID, type Served } from '../web/observe.ts';
import { answerAndEnd, brokenRequests, refusePlainHttp } from './raw-connection.ts';
import { refusal } from '../web/responses.ts';

/** How long the server waits for a client, in ms. */
export type Waits = Readonly<Record<keyof typeof WAITS_MS, number>>;

const WAITS_MS = {
  handshakeTimeout: 10_000,
  headersTimeout: 10_000,
  /** A whole request with its body of at most 64 KiB. Files may take longer. */
  requestTimeout: 30_000,
  /** Between requests. Longer than the minute for which proxies usually keep connections, so that they close first. */
  keepAliveTimeout: 65_000,
  /** While nothing is sent or received, for example because a client does not read its response. */
  inactivityTimeout: 60_000,
  /** How often the times of headers and requests are checked. */
  connectionsCheckingInterval: 1000,
};

const PARSER = {
  /** Bytes of request line and headers together. */
  maxHeaderSize: 16_384,
  // The adapter refuses requests without one, and with a body.
  requireHostHeader: false,
} as const;

const MIN_VERSION = { minVersion: 'TLSv1.2' } as const;

/** How often a closing server closes connections that have become idle. */
const CLOSE_POLL_MS = 50;

export interface HttpServerOptions {
  readonly app: { fetch(request: Request, env: Served): Response | Promise<Response> };
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** The settings for host and port, which the error names if the server cannot listen there. */
  readonly settings?: string;
  /** With `pending`, no handshake succeeds until there is a certificate. */
  readonly tls: TlsPair | 'pending' | 'proxy';
  /** Makes the id of each request, which its response has. */
  readonly nameRequest?: NameRequest;
  readonly waits?: Waits;
  readonly connections?: ConnectionLimits;
  /** Whether an address belongs to a proxy, which may have all connections. */
  isProxy?(address: string | undefined): boolean;
}

export interface HttpServer {
  readonly port: number;
  /** Uses the pair for new connections; open ones go on. Behind a proxy it does nothing. */
  useCertificate(pair: TlsPair): void;
  /** Accepts no more connections, lets requests in flight finish for `graceMs`, then closes all that are left. */
  close(graceMs: number): Promise<void>;
}

/** @throws {OperatorError} when the address is in use or not this machine's. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { app, tls, nameRequest, waits = WAITS_MS, connections: limits = connectionLimits() } = options;
  const isProxy = (address?: string): boolean =>
    (tls === 'proxy' && isLoopback(address)) || (options.isProxy?.(address) ?? false);
  const connections = new Connections({ limits, isProxy });
  // Requests without a time limit.
  const untimed = new WeakSet<IncomingMessage>();
  const serveApp = (request: Request, { incoming, outgoing }: HttpBindings) =>
    app.fetch(request, {
      incoming,
      outgoing,
      untimed: () => void untimed.add(incoming),
      authenticated: () => connections.authenticated(incoming),
    });
  const answer = getRequestListener((request, env) => serveApp(request, env as HttpBindings), {
    // Only for requests that the adapter cannot parse, such as an impossible Host. The app answers its own errors.
    errorHandler: () => refusal(400, 'Bad request'),
  });
  const broken = brokenRequests((request) => untimed.has(request));
  const note = limitPipelining();
  const serve: Listener = (request, response) => {
    if (nameRequest) response.setHeader(REQUEST_ID, nameRequest(request));
    connections.begins(request, response);
    broken.note(response);
    note(response);
    // Node's parser drops the bytes right after such a request, so no request may follow on this connection.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    const wrong = (tls === 'proxy' ? proxyFault(request, isProxy) : undefined) ?? misshape(request);
    if (wrong) refuse(response, wrong.status, wrong.message);
    else void answer(request, response);
  };
  const server =
    tls === 'proxy'
      ? createHttp({ ...PARSER, ...waits }, serve)
      : createHttps({ ...PARSER, ...waits, ...(tls === 'pending' ? {} : tls), ...MIN_VERSION }, serve);
  if (server instanceof HttpsServer) refusePlainHttp(server, waits.handshakeTimeout);
  server.timeout = waits.inactivityTimeout;
  // Node would silently drop headers above the count; `misshape` refuses them.
  server.maxHeadersCount = 0;
  server.on('clientError', broken.answer);
  server.on('checkExpectation', serve);
  server.on('connect', (_request, connection: Duplex) => answerAndEnd(connection, 400, 'Bad request'));
  connections.watch(server);
  await listen(server, options);
  return {
    port: (server.address() as AddressInfo).port,
    useCertificate: (pair) => {
      if (server instanceof HttpsServer) server.setSecureContext({ ...pair, ...MIN_VERSION });
    },
    close: (graceMs) => close(server, connections, graceMs),
  };
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** API keys must not cross a network in clear text: the proxy has to be on this machine, and report that its client used TLS. */
function proxyFault(request: IncomingMessage, isProxy: (address: string | undefined) => boolean): Misshape | undefined {
  if (!isLoopback(request.socket.remoteAddress)) {
    return { status: 400, message: 'Only a proxy on this machine may connect' };
  }
  return clientUsedTls(request, isProxy) ? undefined : { status: 400, message: 'Use https://' };
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ error: message });
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  };
  response.writeHead(status, headers).end(body);
}

async function listen(
  server: Server,
  { host, port, settings = 'BERTH_API_HOST, BERTH_API_PORT' }: HttpServerOptions,
): Promise<void> {
  // Without a host, Node listens on `::`, which takes IPv4, too, or on 0.0.0.0 if the kernel has no IPv6.
  server.listen(port, host === '::' ? undefined : host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const reasons: Record<string, string> = {
      EADDRINUSE: 'something else listens there',
      EADDRNOTAVAIL: 'this machine does not have that address',
      EACCES: 'not permitted; for a port below 1024 the unit needs CAP_NET_BIND_SERVICE (see berth.service)',
      ENOTFOUND: 'no such host',
    };
    const reason = reasons[errorCode(error) ?? ''];
    if (reason === undefined) throw error;
    const message = `cannot listen on ${urlHost(host)}:${port}: ${reason} (${settings})`;
    throw new OperatorError(message, { cause: error });
  }
}

async function close(server: Server, connections: Connections, graceMs: number): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  connections.end('silent');
  // A keep-alive connection becomes idle after its last response, and Node does not close such connections itself.
  const idle = setInterval(() => server.closeIdleConnections(), CLOSE_POLL_MS);
  const deadline = setTimeout(() => connections.end('all'), graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}

const MAX_HEADERS = 100;
/** If one of these headers is repeated, Node drops the second or joins both; other servers take the last, or both. */
const SINGLE = new Set([
  'host',
  'authorization',
  'content-type',
  'content-length',
  'transfer-encoding',
  'idempotency-key',
]);

interface Misshape {
  readonly status: 400 | 417 | 431 | 505;
  readonly message: string;
}

const BAD: Misshape = { status: 400, message: 'Bad request' };
const UNEXPECTED: Misshape = { status: 417, message: 'Expectation failed' };
const VERSION: Misshape = { status: 505, message: 'HTTP version not supported' };
const TOO_MANY: Misshape = { status: 431, message: 'Request headers are too large' };

/**
 * Why a request is refused before anything else is done with it, because two servers could understand it differently; undefined for
 * others. Request smuggling uses such a difference between a proxy and berth (RFC 9112, section 11.2). Node's parser refuses wrong
 * framing itself; this checks what it accepts.
 */
function misshape({ rawHeaders, headers, url = '', httpVersion }: IncomingMessage): Misshape | undefined {
  // Node's parser accepts these versions in a request line. A line without a version is 0.9 too.
  if (httpVersion === '0.9') return BAD;
  if (httpVersion === '2.0') return VERSION;
  if (rawHeaders.length > 2 * MAX_HEADERS) return TOO_MANY;
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) return BAD;
    seen.add(name);
  }
  // HTTP/1.0 has no transfer codings, so such framing cannot be trusted (RFC 9112, section 6.1). Only `chunked` is supported.
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion !== '1.1' || coding.toLowerCase() !== 'chunked')) return BAD;
  // Such as `1.2.3.4.5`: no URL has that host.
  if (!URL.canParse(`http://${headers.host ?? 'localhost'}`)) return BAD;
  // Section 3.2: no fragments.
  if (url.includes('#') || !(url.startsWith('/') || isOwn(url, headers.host))) return BAD;
  return headers.expect === undefined || /^100-continue$/i.test(headers.expect) ? undefined : UNEXPECTED;
}

/** Whether a URL in absolute form (section 3.2.2) has the same host as the `Host` header. */
function isOwn(url: string, host: string | undefined): boolean {
  const target = /^https?:/i.test(url) ? URL.parse(url) : null;
  return target !== null && target.username === '' && target.password === '' && target.host === host?.toLowerCase();
}
