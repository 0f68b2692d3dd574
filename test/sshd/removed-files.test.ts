/** Files that are removed while the session that uploaded them may still ask for them (src/arrivals/files/deferred-removal.ts). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chownSync, existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startBerth, type TestBerth, type TestDirectory, type Upload } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { inTransit, open, put, uploadLink } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { type SftpSession, sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Waits for the upload of that name. */
async function uploaded(berth: TestBerth, directory: TestDirectory, name: string, after?: Upload): Promise<Upload> {
  let found: Upload | undefined;
  await until(`${name} is an upload`, async () => {
    found = (await berth.uploads(directory)).find(({ filename, id }) => filename === name && id !== after?.id);
    return found !== undefined;
  });
  assert.ok(found);
  return found;
}

const pathTo = ({ id }: TestDirectory, upload: Upload): string => `/directories/${id}/uploads/${upload.id}`;

async function remove(berth: TestBerth, directory: TestDirectory, upload: Upload): Promise<void> {
  const { status, text } = await berth.send('DELETE', pathTo(directory, upload));
  assert.equal(status, 204, text);
}

async function putAndRemove(berth: TestBerth, directory: TestDirectory, session: SftpSession, name: string) {
  await session.put(name, 'data');
  const upload = await uploaded(berth, directory, name);
  await remove(berth, directory, upload);
  return upload;
}

const on = ({ files }: TestDirectory, name: string): boolean => existsSync(join(files, name));

async function historyOf(berth: TestBerth, { id }: TestDirectory): Promise<string[]> {
  const database = await openDatabase(berth.config.database);
  const rows = await database.db
    .selectFrom('transfers')
    .select(['event', 'path'])
    .where('directory_id', '=', id)
    .where('event', 'not in', ['session-opened', 'session-closed', 'downloaded'])
    .orderBy('id')
    .execute();
  await database.close();
  return rows.map(({ event, path }) => `${event} ${path}`);
}

async function rowsOf(berth: TestBerth, { id }: TestDirectory): Promise<string[]> {
  const database = await openDatabase(berth.config.database);
  const rows = await database.db.selectFrom('files').selectAll().where('directory_id', '=', id).execute();
  await database.close();
  return rows.map(({ path, state }) => `${path.toString()} ${state}`).toSorted();
}

test('a removed file is gone for the API at once, and for its session when that has ended', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await berth.send('PUT', `/directories/${directory.id}/webhook/events`, { json: { events: ['file.deleted'] } });
  const files = `/directories/${directory.id}/files`;
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    await session.mkdir('in');
    const upload = await putAndRemove(berth, directory, session, 'in/a.csv');
    const gone = [pathTo(directory, upload), `${pathTo(directory, upload)}/content`, `${files}/in/a.csv`];
    for (const path of gone) assert.equal((await berth.send('GET', path)).status, 404, path);
    assert.equal((await berth.send('DELETE', pathTo(directory, upload))).status, 404);
    assert.equal((await berth.send('DELETE', `${files}/in/a.csv`)).status, 404);
    assert.deepEqual(dataOf(await berth.send('GET', files)), []);
    assert.deepEqual([await berth.uploads(directory), await berth.storage(directory)], [[], 0]);
    assert.equal(on(directory, 'in/a.csv'), true);
    await session.set('in/a.csv', { atime: 1_700_000_000, mtime: 1_700_000_000 });
    await session.set('in/a.csv', { mode: 0o600 });
    await assert.rejects(session.rmdir('in'), 'the folder is not empty for its client');
    await wait(1500);
    assert.equal(on(directory, 'in/a.csv'), true);
  }
  await until('it has gone', () => !on(directory, 'in/a.csv'));
  await until('so has its row', async () => (await rowsOf(berth, directory)).length === 0);
  assert.deepEqual(await historyOf(berth, directory), ['uploaded in/a.csv', 'removed in/a.csv']);
  assert.equal(await berth.storage(directory), 0);
});

test('a session that asks for nothing is waited for 5 s, and one that asks every second until 30 s after the upload', async () => {
  await using berth = await shared();
  const [idle, busy] = [await berth.directory(), await berth.directory()];
  const gone = async (directory: TestDirectory, ask: (session: SftpSession) => Promise<unknown>): Promise<number> => {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    await putAndRemove(berth, directory, session, 'a');
    const began = performance.now();
    let asked = began;
    while (on(directory, 'a')) {
      await wait(50);
      if (performance.now() - asked < 1000) continue;
      asked = performance.now();
      await ask(session);
    }
    return (performance.now() - began) / 1000;
  };
  const stat = (session: SftpSession): Promise<void> =>
    new Promise((resolve) => session.raw.stat('/files', () => resolve()));
  const [ofIdle, ofBusy] = await Promise.all([gone(idle, async () => undefined), gone(busy, stat)]);
  assert.ok(ofIdle >= 4.9 && ofIdle < 15, `${ofIdle} s`);
  assert.ok(ofBusy >= 20 && ofBusy < 45, `${ofBusy} s`);
});

test('what is written to a removed file, or put in its place, is a new upload and stays', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    const first = await putAndRemove(berth, directory, session, 'over');
    await session.put('over', 'new data');
    assert.equal((await uploaded(berth, directory, 'over', first)).size_bytes, 8);
    const second = await putAndRemove(berth, directory, session, 'append');
    const appending = await session.open('append', 'a');
    await session.write(appending, '+', 4);
    await session.close(appending);
    assert.equal((await uploaded(berth, directory, 'append', second)).size_bytes, 5);
    const third = await putAndRemove(berth, directory, session, 'replaced');
    await session.put('replaced.part', 'other');
    await session.replace('replaced.part', 'replaced');
    await uploaded(berth, directory, 'replaced', third);
    const fourth = await putAndRemove(berth, directory, session, 'same');
    await session.put('same', 'DATA');
    await session.set('same', { atime: 1_700_000_000, mtime: 1_700_000_000 });
    await uploaded(berth, directory, 'same', fourth);
    const fifth = await putAndRemove(berth, directory, session, 'cut');
    await session.set('cut', { size: 2 });
    await uploaded(berth, directory, 'cut', fifth);
    // It is opened while it is taken away.
    await putAndRemove(berth, directory, session, 'held');
    const held = await session.open('held', 'r+');
    await wait(7000);
    await session.write(held, 'HELD', 0);
    await session.close(held);
    await uploaded(berth, directory, 'held');
  }
  await wait(3000);
  const contents = { over: 'new data', append: 'data+', replaced: 'other', same: 'DATA', cut: 'da', held: 'HELD' };
  for (const [name, content] of Object.entries(contents))
    assert.equal(readFileSync(join(directory.files, name), 'utf8'), content);
  assert.equal((await berth.uploads(directory)).length, 6);
  assert.equal(await berth.storage(directory), Object.values(contents).join('').length);
  for (const upload of await berth.uploads(directory))
    assert.equal((await berth.send('GET', `${pathTo(directory, upload)}/content`)).status, 200, upload.filename);
});

test('a removed file that its session opens without writing, renames or removes stays removed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    for (const name of ['read', 'a', 'b', 'c', 'final']) await session.put(name, name);
    await session.mkdir('d');
    await session.put('d/e', 'in a folder');
    for (const name of ['read', 'a', 'b', 'c', 'd/e'])
      await remove(berth, directory, await uploaded(berth, directory, name));
    await session.close(await session.open('read', 'r+'));
    await session.rename('a', 'moved');
    await session.replace('c', 'final');
    await session.remove('b');
    await session.rename('d', 'other');
    await until('the rows follow', async () => {
      const rows = await rowsOf(berth, directory);
      return rows.join() === ['final removed', 'moved removed', 'other/e removed', 'read removed'].join();
    });
    assert.deepEqual([await berth.uploads(directory), await berth.storage(directory)], [[], 0]);
  }
  await until('all have gone', () => readdirSync(directory.files).join() === 'other');
  await until('and their rows', async () => (await rowsOf(berth, directory)).length === 0);
  const history = await historyOf(berth, directory);
  assert.deepEqual(
    history.filter((event) => !event.startsWith('uploaded')),
    ['removed read', 'removed a', 'removed b', 'removed c', 'removed d/e', 'renamed other'],
  );
});

test('a name that a removed file has is free for the API', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const files = `/directories/${directory.id}/files`;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  for (const name of ['new', 'over', 'folder']) await putAndRemove(berth, directory, session, name);
  const isNew = await berth.send('PUT', `${files}/new`, { body: '1', headers: { 'if-none-match': '*' } });
  const over = await berth.send('PUT', `${files}/over`, { body: '2' });
  const below = await berth.send('PUT', `${files}/folder/below`, { body: '3' });
  assert.deepEqual(
    [isNew, over, below].map(({ status, headers }) => [status, headers.warning]),
    Array.from({ length: 3 }, () => [201, undefined]),
  );
  assert.equal(readFileSync(join(directory.files, 'new'), 'utf8'), '1');
  assert.equal(await berth.storage(directory), 3);
  const headers = { authorization: `Bearer ${berth.key}`, 'if-none-match': '*', 'content-length': '2' };
  const slow = open(berth, `/api/v1${files}/slow`, { method: 'PUT', headers });
  const answered = once(slow, 'response');
  slow.write('4');
  await until('its body has begun', () => inTransit(berth).length > 0);
  await putAndRemove(berth, directory, session, 'slow');
  slow.end('4');
  const [{ statusCode }] = (await answered) as [IncomingMessage];
  assert.deepEqual([statusCode, readFileSync(join(directory.files, 'slow'), 'utf8')], [201, '44']);
  await putAndRemove(berth, directory, session, 'scan.pdf');
  const sent = await put(berth, `${await uploadLink(berth, directory, '/', { max_bytes: 1000 })}scan.pdf`, 'scan');
  assert.ok(sent.status < 300, sent.text);
  await uploaded(berth, directory, 'scan.pdf');
});

test('a file is taken at once when no session of its client is there, or the quota has no room for it meanwhile', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using other = await connect({ ...directory.login, localAddress: '127.0.0.2' });
  await sftpSession(other);
  {
    await using connection = await berth.connect(directory);
    await (await sftpSession(connection)).put('ended', 'data');
  }
  await wait(1000);
  await remove(berth, directory, await uploaded(berth, directory, 'ended'));
  assert.equal(on(directory, 'ended'), false);
  writeFileSync(join(directory.files, 'by-hand'), 'data');
  const byHand = await uploaded(berth, directory, 'by-hand');
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await remove(berth, directory, byHand);
  assert.equal(on(directory, 'by-hand'), false);
  await session.put('placed', 'x');
  await uploaded(berth, directory, 'placed');
  await berth.send('PUT', `/directories/${directory.id}/files/placed`, { body: 'y' });
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}/files/placed`)).status, 204);
  assert.equal(on(directory, 'placed'), false);
  // Another session of the same client may ask for it, as rclone's do.
  await using sibling = await berth.connect(directory);
  await (await sftpSession(sibling)).put('sibling', 'data');
  const upload = await uploaded(berth, directory, 'sibling');
  sibling.client.end();
  await sibling.closed;
  await remove(berth, directory, upload);
  assert.equal(on(directory, 'sibling'), true);
});

test('a removal at once never takes what a session has just written, whatever size and times that has', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const [seconds, { uid }] = [1_700_000_000, statSync(directory.files)];
  const names = Array.from({ length: 20 }, (_, i) => `file-${i}`);
  for (const name of names) {
    const file = join(directory.files, name);
    writeFileSync(file, 'data');
    chownSync(file, uid, uid);
    utimesSync(file, seconds, seconds);
  }
  await until('all are uploads', async () => (await berth.uploads(directory)).length === names.length);
  const before = new Map((await berth.uploads(directory)).map((upload) => [upload.filename, upload]));
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  for (const name of names) {
    const handle = await session.open(name, 'r+');
    await session.write(handle, 'DATA', 0);
    await session.close(handle);
    await session.set(name, { atime: seconds, mtime: seconds });
    const upload = before.get(name);
    assert.ok(upload);
    await berth.send('DELETE', pathTo(directory, upload));
  }
  await wait(3000);
  assert.deepEqual(
    names.filter((name) => !on(directory, name) || readFileSync(join(directory.files, name), 'utf8') !== 'DATA'),
    [],
  );
  assert.equal((await berth.uploads(directory)).length, names.length);
});

test('berth is restarted meanwhile: the session finds the file, no scan takes it for a new one, and then it goes', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    await putAndRemove(berth, directory, session, 'a');
    await putAndRemove(berth, directory, session, 'touched');
    await putAndRemove(berth, directory, session, 'written while berth was down');
    await berth.stop();
    await session.put('written while berth was down', 'new data');
    await berth.start();
    await berth.service().covered;
    await uploaded(berth, directory, 'written while berth was down');
    await session.set('touched', { atime: 1_700_000_000, mtime: 1_700_000_000 });
    await wait(1500);
    assert.deepEqual([on(directory, 'a'), on(directory, 'touched')], [true, true]);
  }
  await until('both have gone', () => readdirSync(directory.files).length === 1);
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(await berth.storage(directory), 8);
  const uploads = (await historyOf(berth, directory)).filter((event) => event.startsWith('uploaded'));
  assert.equal(uploads.length, 4);
});

test('a directory is deleted while a file of it waits: nothing is left', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  await putAndRemove(berth, directory, await sftpSession(connection), 'a');
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}`)).status, 204);
  await until('its rows have gone', async () => (await rowsOf(berth, directory)).length === 0);
  assert.equal(existsSync(directory.files), false);
});
