/** A client of the API over real HTTPS, which trusts the given certificate and no other. */
import { once } from 'node:events';
import { Agent, request } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** The parsed body, or undefined when there is none. */
  readonly body: unknown;
}

export interface JsonClient {
  get(path: string): Promise<Answer>;
  post(path: string, body: unknown): Promise<Answer>;
  patch(path: string, body: unknown): Promise<Answer>;
  delete(path: string): Promise<Answer>;
}

export function jsonClient({ port, ca, key }: { port: number; ca: Buffer; key: string }): JsonClient {
  const agent = new Agent({ ca, keepAlive: false });
  async function send(method: string, path: string, body?: unknown): Promise<Answer> {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const outgoing = request({
      agent,
      host: '127.0.0.1',
      port,
      method,
      path,
      headers: {
        authorization: `Bearer ${key}`,
        ...(json === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }),
      },
    });
    outgoing.end(json);
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    const content = await text(incoming);
    return {
      status: incoming.statusCode ?? 0,
      headers: incoming.headers,
      body: content === '' ? undefined : JSON.parse(content),
    };
  }
  return {
    get: (path) => send('GET', path),
    post: (path, body) => send('POST', path, body),
    patch: (path, body) => send('PATCH', path, body),
    delete: (path) => send('DELETE', path),
  };
}
