/**
 * Long lists and clients that do not read them: one list at a time for each account, and little memory in every case.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { dataOf } from '../support/field-sets.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { type RawConnection, rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';

/** 1 KiB each: several MB in all, more than the buffers of sockets hold. */
const ROWS = 8000;

/** Clients that do not read keep their turn there. */
const patient = sharedHosted({ stalledMs: 60_000 });

async function fill({ db }: Database, directory: string, rows: number): Promise<void> {
  const [start, rest] = [
    directory.slice(0, 24),
    { directory_id: directory, state: 'uploaded', mtime: 1, source: 'log' } as const,
  ];
  const rowOf = (i: number) => ({
    ...rest,
    id: start + String(i).padStart(12, '0'),
    path: Buffer.from(String(i).padStart(1000, '0')),
    size_bytes: i,
    uploaded_at: Math.floor(i / 7),
    inode: i,
  });
  for (let i = 1; i <= rows; i += 1000)
    await db
      .insertInto('files')
      .values(Array.from({ length: Math.min(1000, rows + 1 - i) }, (_, at) => rowOf(i + at)))
      .execute();
}

function get(directory: string, key: string): string {
  return `GET /api/v1/directories/${directory}/uploads HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;
}

/** Asks for the list and stops reading once the answer has begun. */
async function unread(server: { port: number; ca: Buffer }, directory: string, key: string): Promise<RawConnection> {
  const connection = await rawConnection(server);
  connection.socket.once('data', () => connection.socket.pause());
  connection.write(get(directory, key));
  return connection;
}

/** An API with a long list, and the list as its pages show it. */
async function longList(api: Api) {
  const { id } = await api.directory();
  await fill(api.database, id, ROWS);
  return { api, id, whole: () => wholeByPages(api, id) };
}

async function wholeByPages(api: Api, id: string): Promise<string> {
  const rows: { id: string }[] = [];
  for (let after = ''; ;) {
    const page = dataOf<{ id: string }[]>(await api.send('GET', `/directories/${id}/uploads?limit=1000${after}`));
    rows.push(...page);
    if (page.length < 1000) return JSON.stringify({ data: rows });
    after = `&after=${page.at(-1)?.id}`;
  }
}

const begun = (connections: readonly RawConnection[]): number =>
  connections.filter(({ received }) => received() !== '').length;

test('clients that do not read a long list have it one after the other; one that reads has it whole after one of them', async () => {
  using place = scratch();
  await using api = await hosted(place, { stalledMs: 2000 });
  const { id, whole } = await longList(api);
  const expected = await whole();
  using silent = new DisposableStack();
  const hogs: RawConnection[] = [];
  for (let i = 0; i < 12; i += 1) hogs.push(silent.use(await unread(api, id, api.tenant.key)));
  await until('one of them has its turn', () => begun(hogs) > 0);
  const answer = await api.send('GET', `/directories/${id}/uploads`);
  assert.equal(answer.text, expected);
  assert.ok(begun(hogs) < hogs.length / 2, `${begun(hogs)} others were begun before it`);
  // Another account and short answers do not wait.
  const other = await api.account('business');
  const { id: theirs } = await api.directory({}, other.send);
  await fill(api.database, theirs, ROWS);
  assert.equal(dataOf<unknown[]>(await other.send('GET', `/directories/${theirs}/uploads`)).length, ROWS);
  assert.equal((await api.send('GET', `/directories/${id}/uploads?limit=10`)).status, 200);
  assert.deepEqual(api.errors(), []);
});

test('a short list that has to read very many rows waits for its turn, too', async () => {
  const { api, id } = await longList(await patient());
  using reading = await unread(api, id, api.tenant.key);
  await until('it has begun', () => reading.received() !== '');
  let isAnswered = false;
  const asked = api.send('GET', `/directories/${id}/uploads?limit=1&prefix=x`).finally(() => (isAnswered = true));
  // Lists that find theirs at once do not.
  for (const query of ['limit=1', 'limit=1&prefix=0'])
    assert.equal((await api.send('GET', `/directories/${id}/uploads?${query}`)).status, 200);
  await wait(200);
  assert.ok(!isAnswered);
  reading.socket.resume();
  assert.deepEqual((await asked).json, { data: [] });
  assert.deepEqual(api.errors(), []);
});

test('a client that leaves gives up its turn or place; the last one, for whom nobody waits, is not hurried', async () => {
  using place = scratch();
  await using api = await hosted(place, { stalledMs: 100 });
  const { id, whole } = await longList(api);
  const expected = await whole();
  using first = await unread(api, id, api.tenant.key);
  await until('it has begun', () => first.received() !== '');
  {
    using second = await unread(api, id, api.tenant.key);
    assert.equal(second.received(), '');
  }
  first.socket.destroy();
  using third = await unread(api, id, api.tenant.key);
  await until('the turn has come', () => third.received() !== '');
  // Several times its patience.
  await new Promise((resolve) => setTimeout(resolve, 500));
  third.socket.resume();
  await until('it is whole', () => third.received().endsWith('\r\n0\r\n\r\n'));
  assert.equal((await api.send('GET', `/directories/${id}/uploads`)).text, expected);
  // Pipelined: each waits for those before it.
  using piped = await rawConnection(api);
  piped.write(get(id, api.tenant.key).repeat(3));
  await until('all three are there', () => piped.received().length > 3 * expected.length);
  await until('the last one is whole', () => piped.received().endsWith('\r\n0\r\n\r\n'));
  assert.deepEqual(api.errors(), []);
});

test('the directory is deleted meanwhile: the list that is under way ends, one that waits is 404', async () => {
  const { api, id } = await longList(await patient());
  using reading = await unread(api, id, api.tenant.key);
  await until('it has begun', () => reading.received() !== '');
  const waiting = api.send('GET', `/directories/${id}/uploads`);
  // It is there before this one is answered.
  assert.equal((await api.send('GET', `/directories/${id}/uploads?limit=1`)).status, 200);
  assert.equal((await api.send('DELETE', `/directories/${id}`)).status, 204);
  reading.socket.resume();
  await until('it ends as a list', () => reading.received().endsWith(']}\r\n0\r\n\r\n'));
  assert.deepEqual((await waiting).json, { error: 'Directory not found' });
  assert.deepEqual(api.errors(), []);
});

test('40 clients that do not read, within the limit: memory grows by less than one of their answers', async () => {
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
  const { id } = dataOf<{ id: string }>(created);
  // No scan takes its rows away, whose files are not there.
  await database.db.updateTable('directories').set({ node: 'elsewhere' }).where('id', '=', id).execute();
  await fill(database, id, 4 * ROWS);
  const memory = (): number =>
    1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${serve.pid}/status`, 'utf8'))?.[1]);
  const answer = (await client.send('GET', `/directories/${id}/uploads`)).text;
  assert.equal((JSON.parse(answer) as { data: unknown[] }).data.length, 4 * ROWS);
  const before = memory();
  const server = { port: config.api.port, ca: readFileSync(config.tls.cert) };
  const hogs: RawConnection[] = [];
  for (let i = 0; i < 40; i += 1) hogs.push(parts.use(await unread(server, id, key)));
  await until('the second has its turn', () => begun(hogs) >= 2, 60);
  const grown = memory() - before;
  assert.ok(grown < answer.length, `${grown} bytes more, ${answer.length} in an answer`);
  assert.equal((await client.send('GET', `/directories/${id}/uploads`)).text, answer);
});
