/**
 * Serves the app over HTTPS, or, behind a proxy on this machine that ends TLS, over plain HTTP. Every wait for a client
 * has an end, and so has every size.
 */
import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps, Server as HttpsServer } from 'node:https';
import { type AddressInfo, BlockList, isIPv6, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { errorCode, OperatorError } from '../errors.ts';
import { type BrokenRequests, brokenRequests } from './broken-request.ts';
import { refusal } from './error-response.ts';
import { refusePlainHttp } from './first-byte.ts';
import { answerAndEnd } from './raw-answer.ts';
import { type NameRequest, REQUEST_ID } from './request-id.ts';
import { misshape } from './request-shape.ts';
import type { TlsPair } from './tls.ts';

/** How often a server that closes looks for connections that have become idle, in ms. */
const CLOSE_POLL = 50;

/** How long the server waits for a client, all in ms. */
export interface Waits {
  readonly handshakeTimeout: number;
  readonly headersTimeout: number;
  /** A whole request, body included: 64 KiB at the most. */
  readonly requestTimeout: number;
  /** Between requests. */
  readonly keepAliveTimeout: number;
  /** While nothing moves on a connection: a client does not read its response, say. */
  readonly inactivityTimeout: number;
  /** How often the times of headers and requests are looked at. */
  readonly connectionsCheckingInterval: number;
}

const WAITS: Waits = {
  handshakeTimeout: 10_000,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  // Longer than the minute for which proxies usually keep theirs, so that they close first.
  keepAliveTimeout: 65_000,
  inactivityTimeout: 60_000,
  connectionsCheckingInterval: 1000,
};

const PARSER = {
  /** Bytes of request line and headers together. */
  maxHeaderSize: 16_384,
  // The adapter refuses it, with a body.
  requireHostHeader: false,
} as const;

interface App {
  fetch(request: Request, env: HttpBindings): Response | Promise<Response>;
}

const MIN_VERSION = { minVersion: 'TLSv1.2' } as const;

export interface HttpServer {
  readonly port: number;
  /** New connections get this certificate; those that are open go on. Nothing to do behind a proxy. */
  useCertificate(pair: TlsPair): void;
  /** Accepts nothing more, lets requests in flight finish for `graceMs`, then ends what is left. */
  close(graceMs: number): Promise<void>;
}

/**
 * Listens; the port 0 picks a free one.
 * @throws {OperatorError} when the address is taken or not ours.
 */
export async function startHttpServer({
  app,
  host,
  port,
  tls,
  nameRequest,
  waits = WAITS,
}: {
  app: App;
  host: string;
  port: number;
  tls: TlsPair | 'proxy';
  /** Gives each request the name that its response carries. */
  nameRequest?: NameRequest;
  waits?: Waits;
}): Promise<HttpServer> {
  // No server here speaks HTTP/2.
  const listener = getRequestListener((request, env) => app.fetch(request, env as HttpBindings), {
    // Only what the adapter itself cannot read, an impossible Host, say: the app answers its own errors.
    errorHandler: () => refusal(400, 'Bad request'),
  });
  const broken = brokenRequests();
  const serve = checked(listener, broken);
  const server = tls === 'proxy' ? proxied(serve, waits) : direct(serve, waits, tls);
  server.timeout = waits.inactivityTimeout;
  // Node would drop what is above the count without a word; `misshape` refuses it.
  server.maxHeadersCount = 0;
  server.on('clientError', broken.answer);
  const name = (request: IncomingMessage, response: ServerResponse): void => {
    if (nameRequest) response.setHeader(REQUEST_ID, nameRequest(request));
  };
  server.prependListener('request', name);
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    name(request, response);
    writeRefusal(response, 417, 'Expectation failed');
  });
  server.on('connect', (_request, connection: Duplex) => answerAndEnd(connection, 400, 'Bad request'));
  const connections = new Set<Socket>();
  server.prependListener('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  await listen(server, host, port);
  return {
    port: (server.address() as AddressInfo).port,
    useCertificate: (pair) => {
      if (server instanceof HttpsServer) server.setSecureContext({ ...pair, ...MIN_VERSION });
    },
    close: (graceMs) => close(server, connections, graceMs),
  };
}

type Listener = (request: IncomingMessage, response: ServerResponse) => Promise<void>;
type Serve = (request: IncomingMessage, response: ServerResponse) => void;

function direct(serve: Serve, waits: Waits, pair: TlsPair): Server {
  const server = createHttps({ ...PARSER, ...waits, ...pair, ...MIN_VERSION }, serve);
  refusePlainHttp(server, waits.handshakeTimeout);
  return server;
}

/** Keys must not cross a network in clear: the proxy has to be on this machine and to say that its client used TLS. */
function proxied(serve: Serve, waits: Waits): Server {
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8, 'ipv4');
  loopback.addAddress('::1', 'ipv6');
  return createHttp({ ...PARSER, ...waits }, (request, response) => {
    const peer = request.socket.remoteAddress ?? '';
    if (!loopback.check(peer, isIPv6(peer) ? 'ipv6' : 'ipv4')) {
      writeRefusal(response, 400, 'Only a proxy on this machine may connect');
    } else if (request.headers['x-forwarded-proto'] !== 'https') {
      writeRefusal(response, 400, 'Use https://');
    } else {
      serve(request, response);
    }
  });
}

/** Refuses what has a doubtful shape before the app sees it. */
function checked(listener: Listener, broken: Pick<BrokenRequests, 'note'>): Serve {
  return (request, response) => {
    broken.note(response);
    // Node's parser drops what came right behind such a request, so no request may follow on this connection.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    const wrong = misshape(request);
    if (wrong) writeRefusal(response, wrong.status, wrong.message);
    else void listener(request, response);
  };
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const reasons: Record<string, string> = {
      EADDRINUSE: 'something else listens there',
      EADDRNOTAVAIL: 'this machine does not have that address',
      EACCES: 'not permitted',
      ENOTFOUND: 'no such host',
    };
    const reason = reasons[errorCode(error) ?? ''];
    if (reason === undefined) throw error;
    throw new OperatorError(`cannot listen on ${host}:${port}: ${reason} (BERTH_API_HOST, BERTH_API_PORT)`, {
      cause: error,
    });
  }
}

function writeRefusal(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ error: message });
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  };
  response.writeHead(status, headers);
  response.end(body);
}

async function close(server: Server, connections: Set<Socket>, graceMs: number): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
  // A keep-alive connection becomes idle when its last response is out, and Node closes idle ones only when told.
  const idle = setInterval(() => server.closeIdleConnections(), CLOSE_POLL);
  const deadline = setTimeout(() => {
    for (const socket of connections) socket.destroy();
  }, graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(deadline);
}
