/** Files appear on an open page without a reload: server-sent events, and everything that ends them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { createFileChanges } from '../../src/arrivals/uploads/file-changes.ts';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';
import { everything } from './hostile-place.ts';

const shared = sharedDashboard();

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

function filesOf({ id }: { id: string }): string {
  return `/dashboard/directories/${id}/files`;
}

function cookieOf(user: Visitor): string {
  return [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
}

interface Stream extends Disposable {
  readonly status: number;
  /** All that has come. */
  readonly text: () => string;
  /** How many times the list has. */
  readonly lists: () => number;
  readonly ended: Promise<void>;
}

/** What a browser's EventSource sends. */
async function follow(berth: TestBerth, user: Visitor, path: string): Promise<Stream> {
  const { config, port } = place(berth);
  const headers = { cookie: cookieOf(user), accept: 'text/event-stream' };
  const ca = readFileSync(config.tls.cert);
  const outgoing = request({ ca, host: '127.0.0.1', port, path, headers, agent: false });
  outgoing.end();
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  let text = '';
  incoming.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  incoming.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => void incoming.once('close', resolve));
  return {
    status: incoming.statusCode ?? 0,
    text: () => text,
    lists: () => text.split('event: list\n').length - 1,
    ended,
    [Symbol.dispose]: () => outgoing.destroy(),
  };
}

async function put(dir: string, { login }: TestDirectory, name: string): Promise<void> {
  writeFileSync(join(dir, 'local'), 'data');
  assert.equal((await sftp(dir, login, [`put local ${name}`])).code, 0);
}

async function within(ms: number, what: string, promise: Promise<void>): Promise<void> {
  const late = wait(ms, 'late' as const, { ref: false });
  assert.notEqual(await Promise.race([promise, late]), 'late', `${what} took over ${ms} ms`);
}

test('new, renamed and removed files reach the viewers of their directory, in the view that they have open', async () => {
  await using berth = await shared();
  const [directory, other] = [await berth.directory(), await berth.directory()];
  using user = await signedIn(place(berth), berth.accountId, 'member');
  const page = await user.get(`${filesOf(directory)}?folder=`);
  assert.match(page.text, /<div data-live="files\/events\?folder=">/);
  using newest = await follow(berth, user, `${filesOf(directory)}/events`);
  using folder = await follow(berth, user, `${filesOf(directory)}/events?folder=`);
  using others = await follow(berth, user, `${filesOf(other)}/events`);
  assert.equal(newest.status, 200);
  await until('what there is comes first', () => newest.lists() === 1 && folder.lists() === 1 && others.lists() === 1);
  assert.match(newest.text(), /No uploads yet/);
  assert.match(folder.text(), /This folder is empty/);

  await put(berth.place.dir, directory, '<b>new');
  await until('it appears', () => [newest, folder].every(({ text }) => text().includes('&lt;b&gt;new')));
  assert.doesNotMatch(newest.text(), /<b>/);
  for (const event of newest.text().split('\n\n').slice(0, -1))
    // A question in an attribute has several lines, each in a field of its own.
    assert.match(event, /^(?:event: list(?:\ndata: [^\n]*)+|:)$/);
  assert.equal((await sftp(berth.place.dir, directory.login, ['rename "<b>new" renamed'])).code, 0);
  await until('its new name appears', () => newest.text().includes('<bdi>renamed</bdi>'));
  const [{ id } = { id: '' }] = await berth.uploads(directory);
  const before = newest.lists();
  assert.equal((await user.post(`${filesOf(directory)}/${id}/delete`)).status, 303);
  await until('it goes', () => newest.lists() > before && /No uploads yet[^]*$/.test(newest.text()));
  assert.equal(others.lists(), 1, 'nothing is sent of another directory');
});

void describe('waits for a heartbeat', { concurrency: true }, () => {
  test('the deliveries, the activity and the sessions of an open page change with an upload and a login', async () => {
    await using berth = await shared();
    const directory = await berth.directory({ name: 'Acme' });
    using user = await signedIn(place(berth), berth.accountId);
    const of = `/dashboard/directories/${directory.id}`;
    const pages = [`${of}/activity`, '/dashboard/deliveries', '/dashboard/activity'];
    await using streams = new AsyncDisposableStack();
    const open: Stream[] = [];
    for (const path of pages) {
      const address = /data-live="([^"]+)"/.exec((await user.get(path)).text)?.[1] ?? '';
      assert.equal(address.split('?')[0], `${path}/events`);
      const stream = await follow(berth, user, address);
      streams.defer(() => stream[Symbol.dispose]());
      open.push(stream);
    }
    await until('each is listed once', () => open.every(({ lists }) => lists() === 1));
    assert.ok(open.every(({ text }) => !text().includes('report.csv')));
    const [, , sessions] = open;
    await put(berth.place.dir, directory, 'report.csv');
    await until('the upload is on each', () => open.every(({ text }) => text().includes('report.csv')));
    await using connection = await berth.connect(directory);
    await connection.sftp();
    await until('the session is listed', () => sessions?.text().includes('name="session"') ?? false);
  });

  test('a stream ends with its session, at the next change or beat, and does not keep the session alive', async () => {
    using files = scratch({ BERTH_DASHBOARD: 'on' });
    await using berth = await startBerth(files);
    const directory = await berth.directory();
    using leaving = await signedIn(place(berth), berth.accountId);
    using quiet = await signedIn(place(berth), berth.accountId);
    const database = await openDatabase(berth.config.database);
    const longAgo = Date.now() * 1000 - 3 * 3_600_000_000;
    await database.db.updateTable('user_sessions').set({ seen_at: longAgo }).execute();
    using first = await follow(berth, leaving, `${filesOf(directory)}/events`);
    using second = await follow(berth, quiet, `${filesOf(directory)}/events`);
    await until('both have begun', () => first.lists() === 1 && second.lists() === 1);
    const seen = await database.db.selectFrom('user_sessions').select('seen_at').execute();
    assert.deepEqual(seen, [{ seen_at: longAgo }, { seen_at: longAgo }]);

    assert.equal((await leaving.post('/dashboard/sign-out')).status, 303);
    await put(files.dir, directory, 'secret');
    await until('it comes where one is signed in', () => second.text().includes('secret'));
    await first.ended;
    assert.match(first.text(), /event: end\ndata: \n\n$/);
    assert.doesNotMatch(first.text(), /secret/);
    assert.equal((await follow(berth, leaving, `${filesOf(directory)}/events`)).status, 401);

    await database.db.deleteFrom('user_sessions').execute();
    await database.close();
    await within(15_000, 'the end without a change', second.ended);
    assert.match(second.text(), /event: end\n/);
  });

  test('a stream ends with its directory; another account has none', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const database = await openDatabase(berth.config.database);
    await database.db
      .insertInto('accounts')
      .values({ id: 'other', name: 'Other', plan: 'business', inserted_at: 1 })
      .execute();
    await database.close();
    using stranger = await signedIn(place(berth), 'other');
    using refused = await follow(berth, stranger, `${filesOf(directory)}/events`);
    assert.equal(refused.status, 404);
    using user = await signedIn(place(berth), berth.accountId);
    using stream = await follow(berth, user, `${filesOf(directory)}/events`);
    await until('it has begun', () => stream.lists() === 1);
    assert.equal((await berth.send('DELETE', `/directories/${directory.id}`)).status, 204);
    await within(15_000, 'the end', stream.ended);
  });
});

test('at most six at once for a user, until one ends; other users have their own', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  using user = await signedIn(place(berth), berth.accountId);
  using other = await signedIn(place(berth), berth.accountId);
  const path = `${filesOf(directory)}/events`;
  const streams: Stream[] = [];
  for (let count = 0; count < 6; count += 1) streams.push(await follow(berth, user, path));
  assert.deepEqual(
    streams.map(({ status }) => status),
    Array.from({ length: 6 }, () => 200),
  );
  assert.equal((await follow(berth, user, path)).status, 204);
  using theirs = await follow(berth, other, path);
  assert.equal(theirs.status, 200);
  streams.pop()?.[Symbol.dispose]();
  await until('there is room again', async () => {
    const again = await follow(berth, user, path);
    if (again.status === 200) streams.push(again);
    return again.status === 200;
  });
  for (const stream of streams) stream[Symbol.dispose]();
});

test('all users of an account have thirty at once, and leave room for other accounts', async () => {
  await using berth = await shared();
  const path = `${filesOf(await berth.directory())}/events`;
  using open = new DisposableStack();
  const statuses: number[] = [];
  for (let count = 0; count < 6; count += 1) {
    const user = open.use(await signedIn(place(berth), berth.accountId));
    for (let stream = 0; stream < 6; stream += 1) statuses.push(open.use(await follow(berth, user, path)).status);
  }
  assert.deepEqual(statuses, [...Array<number>(30).fill(200), ...Array<number>(6).fill(204)]);
  const { accountId } = await everything(berth, true);
  using stranger = open.use(await signedIn(place(berth), accountId));
  const { id } = await onDatabase(berth, ({ db }) =>
    db.selectFrom('directories').select('id').where('account_id', '=', accountId).executeTakeFirstOrThrow(),
  );
  assert.equal(open.use(await follow(berth, stranger, `${filesOf({ id })}/events`)).status, 200);
});

test('streams end as soon as the service closes', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const directory = await berth.directory();
  using user = await signedIn(place(berth), berth.accountId);
  using stream = await follow(berth, user, `${filesOf(directory)}/events`);
  using idle = await follow(berth, user, `${filesOf(directory)}/events`);
  await until('both have begun', () => stream.lists() === 1 && idle.lists() === 1);
  const stopped = berth.stop();
  // What is left after 4 s is cut off.
  const both = Promise.all([stream.ended, idle.ended]).then(() => undefined);
  await within(3000, 'the end', both);
  await stopped;
  assert.doesNotMatch(stream.text(), /event: end/, 'the page tries again');
  await berth.start();
});

test('a client that never reads is sent no more than its connection holds', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const ca = readFileSync(berth.config.tls.cert);
  using user = await signedIn(place(berth), berth.accountId);
  using connection = await rawConnection({ port: place(berth).port, ca });
  connection.socket.pause();
  connection.write(
    `GET ${filesOf(directory)}/events HTTP/1.1\r\nHost: x\r\nCookie: ${cookieOf(user)}\r\nAccept: text/event-stream\r\n\r\n`,
  );
  using reading = await follow(berth, user, `${filesOf(directory)}/events`);
  await until('the one that reads has begun', () => reading.lists() === 1);
  for (let count = 0; count < 3; count += 1) {
    await put(berth.place.dir, directory, `file-${count}`);
    await until('it is not held up', () => reading.text().includes(`file-${count}<`));
  }
});

test('without viewers of a directory nothing is called, and each viewer is called once a commit', () => {
  const changes = createFileChanges();
  const row = { at: 1, directory_id: 'd', account_id: 'a', username: 'u' };
  const calls: string[] = [];
  const ends = ['x', 'y'].map((name) => changes.watch('d', () => calls.push(name)));
  changes.committed([{ ...row, event: 'session-opened' }]);
  changes.committed([{ ...row, event: 'downloaded' }]);
  changes.committed([{ ...row, directory_id: 'e', event: 'uploaded' }]);
  assert.deepEqual(calls, []);
  changes.committed([
    { ...row, event: 'uploaded' },
    { ...row, event: 'renamed' },
  ]);
  assert.deepEqual(calls, ['x', 'y']);
  for (const end of ends) end();
  changes.committed([{ ...row, event: 'removed' }]);
  assert.deepEqual(calls, ['x', 'y']);
});
