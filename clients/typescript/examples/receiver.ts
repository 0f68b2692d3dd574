/**
 * A receiver of berth's webhooks: checks each, answers at once, and works afterwards.
 *
 *     WEBHOOK_SECRET=… PORT=9000 node receiver.ts
 *
 * WEBHOOK_SECRET is the secret of the account's webhook. WEBHOOK_SECRETS has those of directories with one of their own, as
 * JSON: {"<directory id>": "<secret>"}.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { verifyWebhook, WebhookError } from 'berth-client';

const { WEBHOOK_SECRET: shared = '', WEBHOOK_SECRETS: listed = '{}', PORT: port = '9000' } = process.env;
const secrets = new Map(Object.entries(JSON.parse(listed) as Record<string, string>));
if (shared === '' && secrets.size === 0) throw new Error('neither WEBHOOK_SECRET nor WEBHOOK_SECRETS is set');
const secretOf = (directory: string): string | undefined =>
  secrets.get(directory) ?? (shared === '' ? undefined : shared);
const LARGEST = 1 << 20;

/** The webhooks that were taken. Keep their ids in your database instead: memory forgets them at a restart. */
const taken = new Set<string>();

createServer((request, response) => void take(request, response)).listen(Number(port), () => console.log('listening'));

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    // Over the raw body: JSON that was parsed and written again has other bytes.
    const event = verifyWebhook(await rawBody(request), request.headers, secretOf);
    const id = String(request.headers['webhook-id']);
    const isNew = !taken.has(id);
    taken.add(id);
    // berth waits for 5 s, and repeats what was not answered by then.
    response.writeHead(204).end();
    // A test tells of a file that is not there; other events are for those who ask for them.
    if (isNew && event.event === 'file.uploaded' && !event.test) setImmediate(work, event.filename);
  } catch (error) {
    if (!(error instanceof WebhookError)) console.error(error);
    response.writeHead(error instanceof WebhookError ? 401 : 400).end();
  }
}

async function rawBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LARGEST) throw new Error('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function work(filename: string): void {
  console.log(`uploaded ${filename}`);
}
