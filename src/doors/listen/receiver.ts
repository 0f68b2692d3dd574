/** A webhook receiver on loopback, for trying berth out: shows each request, and answers as its options say. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { errorCode, errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { verify } from '../../deliveries/webhooks/signature.ts';
import { describeWebhook, fieldsOf, type SignatureVerdict } from './describe.ts';

/** Far more than the body of any webhook of berth's. */
const BODY_LIMIT = 1024 * 1024;
/** For how many deliveries the attempts are counted. */
const REMEMBERED = 1000;

export interface ListenOptions {
  /** 0 for any free port. */
  readonly port: number;
  /** The status to answer with. */
  readonly status: number;
  /** How long to wait before the answer, in seconds. */
  readonly delay: number;
  /** The webhook secret of a directory; undefined when this machine does not know it. */
  readonly secretOf: (directoryId: string) => Promise<string | undefined>;
  readonly print: (text: string) => void;
}

export interface Listening {
  readonly url: string;
  close(): Promise<void>;
}

/** @throws {OperatorError} when the port is taken or may not be used. */
export async function listen({ port, status, delay, secretOf, print }: ListenOptions): Promise<Listening> {
  const attempts = new LRUCache<string, number>({ max: REMEMBERED });

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { headers, method, url } = request;
    const body = await read(request);
    if (method !== 'POST' || body === undefined) {
      print(`${method} ${JSON.stringify(url)}: not a webhook\n`);
      response.writeHead(body === undefined ? 413 : 405, { connection: 'close' }).end();
      return;
    }
    const id = String(headers['webhook-id'] ?? '');
    const attempt = (attempts.get(id) ?? 0) + 1;
    attempts.set(id, attempt);
    const verdict = await judge(body, headers['x-service-signature'], secretOf);
    print(describeWebhook({ body, headers, attempt, verdict, at: new Date() }));
    if (delay > 0) await sleep(delay * 1000);
    print(response.destroyed ? '  berth did not wait for the answer\n' : `  answered ${status}\n`);
    response.writeHead(status).end();
  };

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      print(`  ${errorMessage(error)}\n`);
      response.destroy();
    });
  });
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    const isTaken = errorCode(error) === 'EADDRINUSE';
    const message = isTaken
      ? `port ${port} is taken by another program: choose a free one with --port`
      : `cannot listen on port ${port} (${errorMessage(error)}): choose another with --port`;
    throw new OperatorError(message, { cause: error });
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** The body, or undefined when it is too long. */
async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_LIMIT) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function judge(
  body: Buffer,
  signature: string | string[] | undefined,
  secretOf: ListenOptions['secretOf'],
): Promise<SignatureVerdict> {
  if (typeof signature !== 'string') return 'missing';
  const secret = await secretOf(String(fieldsOf(body)?.['directory_id']));
  if (secret === undefined) return 'unknown';
  return verify(body, secret, signature) ? 'right' : 'wrong';
}
