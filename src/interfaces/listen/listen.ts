/** A webhook receiver on loopback, for trying berth out: shows each request, and answers as its options say. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { errorCode, errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { verify } from '../../deliveries/webhooks/signature.ts';
import { escaped } from '../../foundation/base/text.ts';
import { openDatabase } from '../../foundation/db/open.ts';
import { isMissing } from '../../foundation/base/database-place.ts';

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

interface Listening {
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

/** `unknown`: we have no secret to check the signature with. */
type SignatureVerdict = 'right' | 'wrong' | 'missing' | 'unknown';

const VERDICTS: Record<SignatureVerdict, string> = {
  right: 'signature right',
  wrong: 'signature WRONG: the body or the secret differs',
  missing: 'signature missing: there is no x-service-signature header',
  unknown: 'signature not checked: this machine has no secret for the directory; give it with --secret',
};

interface ShownWebhook {
  readonly body: Buffer;
  readonly headers: IncomingHttpHeaders;
  /** Counted from 1. */
  readonly attempt: number;
  readonly verdict: SignatureVerdict;
  readonly at: Date;
}

/** A webhook in a few lines, which are safe on a terminal whatever the names hold. */
function describeWebhook({ body, headers, attempt, verdict, at }: ShownWebhook): string {
  const time = at.toISOString().slice(11, 23);
  const sentAt = Number(headers['webhook-timestamp']);
  const sent = Number.isSafeInteger(sentAt) ? `, sent at ${new Date(sentAt * 1000).toISOString()}` : '';
  return [
    `${time}  ${content(body)}`,
    `  attempt ${attempt} of delivery ${quoted(headers['webhook-id'] ?? 'without an id')}${sent}`,
    `  ${VERDICTS[verdict]}`,
    '',
  ].join('\n');
}

function content(body: Buffer): string {
  const fields = fieldsOf(body);
  if (!fields) return `a body that is not JSON, ${body.length} bytes: ${quoted(body.toString().slice(0, 200))}`;
  const { event, filename, size_bytes: size, directory, directory_id: id, external_id: external } = fields;
  const externally = external === null || external === undefined ? '' : `, external_id ${quoted(external)}`;
  return `${bare(event)}: ${quoted(filename)}, ${bare(size)} bytes\n  directory ${bare(directory)} (${bare(id)})${externally}`;
}

/** Undefined when the body is not a JSON object. */
function fieldsOf(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** Quotes a value, and escapes every character that could move the cursor, or colour or reorder the line. */
function quoted(value: unknown): string {
  return escaped(JSON.stringify(value) ?? 'nothing');
}

/** Like `quoted`, but without quotes if the text is plain. */
function bare(value: unknown): string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value) ? value : quoted(value);
}

// Runs `berth listen`: receives webhooks and shows them until a signal ends it.

export interface ListenArguments {
  readonly port: number;
  /** The status to answer with. */
  readonly fail: number;
  /** The wait before the answer, in seconds. */
  readonly delay: number;
  /** Used instead of the one in the database. */
  readonly secret?: string;
}

interface ListenWiring {
  /** The database in which secrets are looked up. */
  database(): string;
  /** Writes to standard output as it is. */
  stdout(text: string): void;
  /** Resolves when it should end, for example on SIGINT. */
  stopped(): Promise<unknown>;
}

/** @throws {OperatorError} when the port is taken or may not be used. */
export async function runListen(
  { port, fail, delay, secret }: ListenArguments,
  { database, stdout, stopped }: ListenWiring,
): Promise<void> {
  const secretOf = async (id: string): Promise<string | undefined> => secret ?? secretInDatabase(database(), id);
  const listening = await listen({ port, status: fail, delay, secretOf, print: stdout });
  stdout(`Listening on ${listening.url} for webhooks; Ctrl-C ends it.\n`);
  await stopped();
  await listening.close();
}

/** A directory's webhook secret; undefined when there is no such directory or no database. Does not create the database. */
export async function secretInDatabase(place: string, directoryId: string): Promise<string | undefined> {
  if (isMissing(place)) return undefined;
  const database = await openDatabase(place);
  try {
    const secret = database.db.selectFrom('directories').select('webhook_secret').where('id', '=', directoryId);
    return (await secret.executeTakeFirst())?.webhook_secret;
  } finally {
    await database.close();
  }
}
