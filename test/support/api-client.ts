/** Requests over real HTTPS, with everything that a test may want to send wrongly. Each answer has to be one that openapi.json describes. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { assertDescribed } from './openapi.ts';

export interface ApiAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** The body as it came. */
  readonly text: string;
  /** The body parsed, undefined when there is none. */
  readonly json: unknown;
}

interface RequestOptions {
  /** The whole `Authorization` header; null sends none. */
  readonly authorization?: string | null;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is. */
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
  /** Sends the body without saying its length first. */
  readonly chunked?: boolean;
}

export type Send = (method: string, path: string, options?: RequestOptions) => Promise<ApiAnswer>;

export interface ApiClient extends Disposable {
  send: Send;
  /** The same with another key. */
  as(key: string): Send;
}

export interface ApiServer {
  /** 127.0.0.1 when it is left out. */
  readonly host?: string;
  readonly port: number;
  readonly ca: Buffer;
  readonly key: string;
}

/** A client that trusts `ca` alone; paths are below `/api/v1` unless they start with `//`, which stands for the root. */
export function apiClient({ host = '127.0.0.1', port, ca, key }: ApiServer): ApiClient {
  const agent = new Agent({ ca, keepAlive: true });
  const as =
    (ownKey: string): Send =>
    async (method, path, { authorization = `Bearer ${ownKey}`, json, body, headers = {}, chunked } = {}) => {
      const content = json === undefined ? body : JSON.stringify(json);
      const target = path.startsWith('//') ? path.slice(1) : `/api/v1${path}`;
      const outgoing = request({
        agent,
        host,
        port,
        method,
        path: target,
        headers: {
          ...(authorization === null ? {} : { authorization }),
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...(content === undefined || chunked ? {} : { 'content-length': Buffer.byteLength(content) }),
          ...headers,
        },
      });
      outgoing.end(content);
      const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
      const answer = await text(incoming);
      const { statusCode: status = 0, headers: received } = incoming;
      assertDescribed(method, target, { status, type: received['content-type'], text: answer });
      const isJson = received['content-type'] === 'application/json' && answer !== '';
      return {
        status,
        headers: received,
        text: answer,
        json: isJson ? (JSON.parse(answer) as unknown) : undefined,
      };
    };
  return { send: as(key), as, [Symbol.dispose]: () => agent.destroy() };
}
