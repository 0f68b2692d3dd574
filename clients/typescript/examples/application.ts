/**
 * What an application does with berth: a directory for a customer, and each file that arrives fetched once.
 *
 *     BERTH_URL=https://… BERTH_KEY=svc_live_… PORT=9000 INBOX=./inbox node application.ts
 *
 * A file leaves berth only when all of it is in INBOX, under the id of its upload. Whatever fails is tried again, and what
 * is still in berth when this starts is fetched then: a crash loses nothing, and neither does a webhook that never comes.
 */
import { createWriteStream, existsSync, mkdirSync } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as sleep } from 'node:timers/promises';
import { createBerthClient, verifyWebhook, WebhookError } from 'berth-client';

const { BERTH_URL: url = '', BERTH_KEY: key = '', PORT: port = '', INBOX: inbox = 'inbox' } = process.env;
const LARGEST_WEBHOOK = 1 << 20;
const berth = createBerthClient({ url, key });
mkdirSync(inbox, { recursive: true });

const { id, webhook_secret: secret, ...login } = await directoryOf('customer-42');

/** Uploads that are to be fetched, by their ids. */
const waiting = new Set<string>();
let isFetching = false;

/** The customer's directory, which is made the first time. Only then is there a password. */
async function directoryOf(external_id: string) {
  const [known] = dataOf(await berth.GET('/api/v1/directories', { params: { query: { external_id } } }));
  if (known) return dataOf(await berth.GET('/api/v1/directories/{id}', { params: { path: { id: known.id } } }));
  const made = await berth.POST('/api/v1/directories', {
    params: { header: { 'Idempotency-Key': external_id } },
    body: { directory: { name: 'Acme Corp', external_id, metadata: { tier: 'gold' } } },
  });
  return dataOf(made);
}

/** @throws {Error} unless berth did what it was asked. */
function dataOf<T>({ data, error, response }: { data?: { data: T }; error?: unknown; response: Response }): T {
  if (!data) throw new Error(`berth answers ${response.status}: ${JSON.stringify(error)}`);
  return data.data;
}

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const event = verifyWebhook(await rawBody(request), request.headers, secret);
    // Answer first: berth waits for 5 s.
    response.writeHead(204).end();
    const uploadId = request.headers['webhook-upload-id'];
    if (event.event !== 'file.uploaded' || event.test || typeof uploadId !== 'string') return;
    waiting.add(uploadId);
    void fetchAll();
  } catch (problem) {
    response.writeHead(problem instanceof WebhookError ? 401 : 400).end();
  }
}

async function rawBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LARGEST_WEBHOOK) throw new Error('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** One file after the other. One that fails goes to the end of the line. */
async function fetchAll(): Promise<void> {
  if (isFetching) return;
  isFetching = true;
  for (let failures = 0; waiting.size > 0;) {
    const [uploadId = ''] = waiting;
    waiting.delete(uploadId);
    try {
      await fetchOne(uploadId);
      failures = 0;
    } catch (problem) {
      console.error(`${uploadId} is tried again: ${String(problem)}`);
      waiting.add(uploadId);
      failures += 1;
      await sleep(Math.min(250 * 2 ** failures, 5000));
    }
  }
  isFetching = false;
}

/** @throws {Error} when it has to be tried again. */
async function fetchOne(uploadId: string): Promise<void> {
  const params = { path: { id, upload_id: uploadId } };
  const known = await berth.GET('/api/v1/directories/{id}/uploads/{upload_id}', { params });
  // It was fetched and removed before, or a newer upload has replaced it, which has a webhook of its own.
  if (known.response.status === 404) return;
  const { filename, size_bytes: size } = dataOf(known);
  // Never under a name that a customer chose.
  const place = join(inbox, uploadId);
  if (!existsSync(place)) {
    await download(uploadId, place, size);
    console.log(`fetched ${filename} as ${place}`);
  }
  const removed = await berth.DELETE('/api/v1/directories/{id}/uploads/{upload_id}', { params });
  if (removed.response.status !== 204 && removed.response.status !== 404)
    throw new Error(`the removal gets ${removed.response.status}`);
}

/** There is no file of that name until it is whole, and on the disk. @throws {Error} */
async function download(uploadId: string, place: string, size: number): Promise<void> {
  const { response } = await berth.GET('/api/v1/directories/{id}/uploads/{upload_id}/content', {
    params: { path: { id, upload_id: uploadId } },
    parseAs: 'stream',
  });
  if (response.status !== 200 || !response.body) throw new Error(`the download gets ${response.status}`);
  const part = `${place}.part`;
  await pipeline(Readable.fromWeb(response.body as ReadableStream), createWriteStream(part, { flush: true }));
  const { size: received } = await stat(part);
  if (received !== size) throw new Error(`${received} of ${size} bytes came`);
  await rename(part, place);
  const folder = await open(inbox);
  await folder.sync();
  await folder.close();
}

createServer((request, response) => void take(request, response)).listen(Number(port), '127.0.0.1');
const webhook_url = `http://127.0.0.1:${port}/`;
const params = { path: { id } };
dataOf(await berth.PATCH('/api/v1/directories/{id}', { params, body: { directory: { webhook_url } } }));
const there = dataOf(await berth.GET('/api/v1/directories/{id}/uploads', { params }));
for (const upload of there) waiting.add(upload.id);
void fetchAll();
console.log(
  JSON.stringify({ username: login.sftp_username, password: 'sftp_password' in login && login.sftp_password }),
);
