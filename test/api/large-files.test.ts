/** A large file in both directions, through a process of its own, whose memory does not grow with the size. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { dataOf } from '../support/field-sets.ts';
import { rounds } from '../support/long.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';

const MIB = 1024 * 1024;
/** In MiB; more than the leeway. */
const CHUNKS = rounds(320, 1024);
/** How much memory may grow: buffers in use, and garbage that is not collected yet. */
const LEEWAY = 256 * MIB;

function* content(): Generator<Buffer> {
  for (let i = 0; i < CHUNKS; i += 1) yield Buffer.alloc(MIB, `chunk ${i}`);
}

test(`${CHUNKS} MiB in and out again, byte for byte, in the memory of a small one`, async (t) => {
  using place = scratch();
  const { config, environment } = await fixedPorts(place);
  await using serve = await startServe(config, environment);
  await using parts = new AsyncDisposableStack();
  const database = parts.adopt(await openDatabase(config.database), (opened) => opened.close());
  const issuer = { database, clock: systemClock(), config: { environment: 'live' } } as const;
  const { id: accountId } = await createAccount(issuer, { name: 'Test', plan: 'business' });
  const { key } = await createKey(issuer, { accountId }, { role: 'admin', name: 'test' });
  using client = clientOf(config, key);
  const created = await client.send('POST', '/directories', { json: { directory: { name: 'A' } } });
  const directory = `/directories/${dataOf<{ id: string }>(created).id}`;
  const server = { host: '127.0.0.1', port: config.api.port, ca: readFileSync(config.tls.cert) };
  const ask = (method: string, path: string) =>
    request({ ...server, method, path: `/api/v1${directory}${path}`, headers: { authorization: `Bearer ${key}` } });

  /** The memory of the process, in bytes, and its peak since the last question. */
  let most = 0;
  const memory = (): number =>
    1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${serve.pid}/status`, 'utf8'))?.[1]);
  const watch = setInterval(() => (most = Math.max(most, memory())), 50);
  parts.defer(() => clearInterval(watch));
  await client.send('PUT', `${directory}/files/small`, { body: 'x' });
  const before = memory();
  const grown = (what: string): void => {
    t.diagnostic(`${what}: ${Math.round((most - before) / MIB)} MiB above ${Math.round(before / MIB)}`);
    assert.ok(most - before < LEEWAY, `${what}: ${most - before} bytes more`);
    most = 0;
  };

  const put = ask('PUT', '/files/large');
  const answered = once(put, 'response') as Promise<[IncomingMessage]>;
  await pipeline(Readable.from(content()), put);
  const [answer] = await answered;
  answer.resume();
  assert.equal(answer.statusCode, 201);
  grown('in');

  // As if it had been uploaded.
  await database.db.updateTable('files').set({ state: 'uploaded' }).where('path', '=', Buffer.from('large')).execute();
  const [upload] = dataOf<{ id: string; size_bytes: number }[]>(await client.send('GET', `${directory}/uploads`));
  assert.equal(upload?.size_bytes, CHUNKS * MIB);
  const get = ask('GET', `/uploads/${upload.id}/content`).end();
  const [incoming] = (await once(get, 'response')) as [IncomingMessage];
  const received = createHash('sha256');
  for await (const chunk of incoming) received.update(chunk as Buffer);
  grown('out');
  const sent = createHash('sha256');
  for (const chunk of content()) sent.update(chunk);
  assert.equal(received.digest('hex'), sent.digest('hex'));
});
