/**
 * A receiver of berth's webhooks: checks each, answers at once, and works afterwards.
 *
 *     WEBHOOK_SECRET=… PORT=9000 node receiver.ts
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { verifyWebhook, WebhookError, type WebhookEvent } from 'berth-client';

const { WEBHOOK_SECRET: secret = '', PORT: port = '9000' } = process.env;
if (secret === '') throw new Error('WEBHOOK_SECRET is not set');
const LARGEST = 1 << 20;

/** The webhooks that were taken. Keep their ids in your database instead: memory forgets them at a restart. */
const taken = new Set<string>();

createServer((request, response) => void take(request, response)).listen(Number(port), () => console.log('listening'));

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    // Over the raw body: JSON that was parsed and written again has other bytes.
    const event = verifyWebhook(await rawBody(request), request.headers, secret);
    const id = String(request.headers['webhook-id']);
    const isNew = !taken.has(id);
    taken.add(id);
    // berth waits for 5 s, and repeats what was not answered by then.
    response.writeHead(204).end();
    if (isNew) setImmediate(work, event);
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

function work(event: WebhookEvent): void {
  console.log(`uploaded ${event.filename}`);
}
