/**
 * Serves the app over HTTPS, or, behind a proxy on this machine that ends TLS, over plain HTTP. Every wait for a client
 * has an end, and so has every size.
 */
import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps, Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { errorCode, OperatorError } from '../base/errors.ts';
import type { TlsPair } from './certificate.ts';
import { isLoopback } from '../web/client-address.ts';
import { type ConnectionLimits, connectionLimits, Connections } from './connections.ts';
import { type NameRequest, REQUEST_ID, type Served } from '../web/observe.ts';
import { limitPipelining } from './pipelining.ts';
import { answerAndEnd, brokenRequests, refusePlainHttp } from './raw-connection.ts';
import { type Misshape, misshape } from './request-shape.ts';
import { refusal } from '../web/responses.ts';

/** How long the server waits for a client, all in ms. */
export type Waits = Readonly<Record<keyof typeof WAITS, number>>;

const WAITS = {
  handshakeTimeout: 10_000,
  headersTimeout: 10_000,
  /** A whole request with its body of at most 64 KiB. Files may take longer. */
  requestTimeout: 30_000,
  /** Between requests: longer than the minute for which proxies usually keep theirs, so that they close first. */
  keepAliveTimeout: 65_000,
  /** While nothing moves on a connection: a client does not read its response, say. */
  inactivityTimeout: 60_000,
  /** How often the times of headers and requests are looked at. */
  connectionsCheckingInterval: 1000,
};

const PARSER = {
  /** Bytes of request line and headers together. */
  maxHeaderSize: 16_384,
  // The adapter refuses it, with a body.
  requireHostHeader: false,
} as const;

const MIN_VERSION = { minVersion: 'TLSv1.2' } as const;

/** How often a server that closes looks for connections that have become idle. */
const CLOSE_POLL_MS = 50;

export interface HttpServerOptions {
  readonly app: { fetch(request: Request, env: Served): Response | Promise<Response> };
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** The settings that choose both, for the error when they cannot be had. */
  readonly settings?: string;
  /** `pending`: no handshake succeeds until there is a certificate. */
  readonly tls: TlsPair | 'pending' | 'proxy';
  /** Gives each request the name that its response carries. */
  readonly nameRequest?: NameRequest;
  readonly waits?: Waits;
  readonly connections?: ConnectionLimits;
  /** Whether an address is that of a proxy, which may have all connections. */
  isProxy?(address: string | undefined): boolean;
}

export interface HttpServer {
  readonly port: number;
  /** New connections get this certificate; those that are open go on. Nothing to do behind a proxy. */
  useCertificate(pair: TlsPair): void;
  /** Accepts nothing more, lets requests in flight finish for `graceMs`, then ends what is left. */
  close(graceMs: number): Promise<void>;
}

/** @throws {OperatorError} when the address is taken or not ours. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { app, tls, nameRequest, waits = WAITS, connections: limits = connectionLimits() } = options;
  const isProxy = (address?: string): boolean =>
    (tls === 'proxy' && isLoopback(address)) || (options.isProxy?.(address) ?? false);
  const connections = new Connections({ limits, isProxy });
  // No server here speaks HTTP/2.
  const untimed = new WeakSet<IncomingMessage>();
  const serveApp = (request: Request, { incoming, outgoing }: HttpBindings) =>
    app.fetch(request, {
      incoming,
      outgoing,
      untimed: () => void untimed.add(incoming),
      authenticated: () => connections.authenticated(incoming),
    });
  const answer = getRequestListener((request, env) => serveApp(request, env as HttpBindings), {
    // Only what the adapter itself cannot read, an impossible Host, say: the app answers its own errors.
    errorHandler: () => refusal(400, 'Bad request'),
  });
  const broken = brokenRequests((request) => untimed.has(request));
  const note = limitPipelining();
  const serve: Listener = (request, response) => {
    if (nameRequest) response.setHeader(REQUEST_ID, nameRequest(request));
    connections.begins(request, response);
    broken.note(response);
    note(response);
    // Node's parser drops what came right behind such a request, so no request may follow on this connection.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    const wrong = (tls === 'proxy' ? proxyFault(request) : undefined) ?? misshape(request);
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

/** Keys must not cross a network in clear: the proxy has to be on this machine and to say that its client used TLS. */
function proxyFault({ socket, headers }: IncomingMessage): Misshape | undefined {
  if (!isLoopback(socket.remoteAddress)) return { status: 400, message: 'Only a proxy on this machine may connect' };
  return headers['x-forwarded-proto'] === 'https' ? undefined : { status: 400, message: 'Use https://' };
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
  server.listen(port, host);
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
    const message = `cannot listen on ${host}:${port}: ${reason} (${settings})`;
    throw new OperatorError(message, { cause: error });
  }
}

async function close(server: Server, connections: Connections, graceMs: number): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  connections.end('silent');
  // A keep-alive connection becomes idle when its last response is out, and Node does not close idle ones on its own.
  const idle = setInterval(() => server.closeIdleConnections(), CLOSE_POLL_MS);
  const deadline = setTimeout(() => connections.end('all'), graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
