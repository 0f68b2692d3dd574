/**
 * A webhook receiver for tests: a real HTTP (or HTTPS) server on loopback that keeps every request it gets and answers
 * 204, or whatever `respond` does. Dispatchers under test need `BERTH_WEBHOOK_ALLOW=127.0.0.0/8` to reach it.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { TIMEOUT_SECONDS } from './poll.ts';

export interface Received {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** `performance.now()` when the request's head had arrived. */
  readonly at: number;
}

export interface Receiver extends AsyncDisposable {
  /** `http://127.0.0.1:<port>/hook`, or the same with `https:` or at another address. */
  readonly url: string;
  /** Every request so far, in the order in which they were complete. */
  readonly requests: readonly Received[];
  /** How many connections were opened to it. */
  connections(): number;
  /** The first request that `next` has not returned yet; waits for it as long as `until` does. */
  next(): Promise<Received>;
}

export interface ReceiverOptions {
  /** Answers the request; its index counts from 0. Without it, each is answered 204. */
  readonly respond?: (response: ServerResponse, request: Received, index: number) => void;
  /** PEM texts, for HTTPS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /**
   * Ignores further requests for the same delivery. berth repeats a webhook without an answer within 5 s, so a busy machine
   * makes more requests than there are webhooks.
   */
  readonly eachOnce?: boolean;
  /** Where it listens; 127.0.0.1 and a free port when left out. */
  readonly host?: string;
  readonly port?: number;
}

export async function receiver({
  respond,
  tls,
  eachOnce = false,
  host = '127.0.0.1',
  port: wanted = 0,
}: ReceiverOptions = {}): Promise<Receiver> {
  const requests: Received[] = [];
  const known = new Set<unknown>();
  const arrivals = new EventTarget();
  let connections = 0;
  let taken = 0;

  const listener: RequestListener = (request, response) => {
    const at = performance.now();
    const complete = (body: Buffer): void => {
      const received = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body, at };
      const id = request.headers['webhook-id'];
      if (!(eachOnce && known.has(id))) {
        requests.push(received);
        arrivals.dispatchEvent(new Event('arrival'));
      }
      known.add(id);
      if (respond) respond(response, received, requests.length - 1);
      else response.writeHead(204).end();
    };
    // A client that goes away half-way has made no request.
    buffer(request).then(complete, () => undefined);
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  server.on('connection', () => (connections += 1));
  server.listen(wanted, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  return {
    url: `${tls ? 'https' : 'http'}://${host}:${port}/hook`,
    requests,
    connections: () => connections,
    async next() {
      const signal = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
      const index = taken;
      taken += 1;
      for (;;) {
        const found = requests[index];
        if (found) return found;
        await arrival(arrivals, signal, index);
      }
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };
}

async function arrival(arrivals: EventTarget, signal: AbortSignal, index: number): Promise<void> {
  try {
    await once(arrivals, 'arrival', { signal });
  } catch (error) {
    throw new Error(`no request number ${index + 1} within ${TIMEOUT_SECONDS} s`, { cause: error });
  }
}
