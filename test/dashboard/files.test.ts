/** The Files page: what is listed, found, fetched and deleted there, whatever the names are. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { questionIn, unescaped } from '../support/directory-page.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { recordFiles } from '../support/record-files.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

function filesOf({ id }: { id: string }): string {
  return `/dashboard/directories/${id}/files`;
}

async function put(dir: string, { login }: TestDirectory, name: string, content: Buffer | string): Promise<void> {
  writeFileSync(join(dir, 'local'), content);
  assert.equal((await sftp(dir, login, [`put local ${name}`])).code, 0);
}

/** A request as it goes over the wire, since a `Visitor` reads text. */
async function fetchBytes(berth: TestBerth, user: Visitor, path: string, headers: Record<string, string> = {}) {
  const { config, port } = place(berth);
  const cookie = [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const ca = readFileSync(config.tls.cert);
  const outgoing = request({ ca, host: '127.0.0.1', port, path, headers: { cookie, ...headers }, agent: false });
  outgoing.end();
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: incoming.statusCode, headers: incoming.headers, body: await buffer(incoming) };
}

/** The ids of the files on a page, in order. */
function idsIn(text: string): string[] {
  return [...text.matchAll(/formaction="files\/([\da-f-]{36})\/delete/g)].map(([, id = '']) => id);
}

function nextOf(text: string): string | undefined {
  return /href="([^"]*)">Next</.exec(text)?.[1]?.replaceAll('&amp;', '&');
}

test('an upload is listed, found by its folder and a part of its name, fetched byte for byte, and deleted after a question', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  using user = await signedIn(place(berth), berth.accountId, 'member');
  assert.match((await user.get(filesOf(directory))).text, /No uploads yet.*Files appear here as soon as they arrive/s);

  const content = randomBytes(300_000);
  assert.equal((await sftp(berth.place.dir, directory.login, ['mkdir in', 'mkdir in/2026'])).code, 0);
  await put(berth.place.dir, directory, 'in/2026/report.bin', content);
  await until('it is recorded', async () => (await berth.uploads(directory)).length === 1);
  const [{ id } = { id: '' }] = await berth.uploads(directory);

  const newest = await user.get(filesOf(directory));
  assert.match(newest.text, /<bdi>in\/2026\/report\.bin<\/bdi>.*293 KiB.*<time datetime="2/s);
  const folder = (path: string): string => `${filesOf(directory)}?folder=${bytes(path).toString('base64url')}`;
  assert.match((await user.get(folder(''))).text, new RegExp(`href="\\?folder=${bytes('in').toString('base64url')}"`));
  assert.deepEqual(idsIn((await user.get(folder('in'))).text), []);
  const inner = await user.get(folder('in/2026'));
  assert.deepEqual([idsIn(inner.text), /<bdi>report\.bin<\/bdi>/.test(inner.text)], [[id], true]);
  assert.match((await user.get(folder('nothing'))).text, /This folder is empty/);
  for (const [text, found] of Object.entries({ '/2026/rep': [id], REPORT: [id], 'in/2026/x': [], 2026: [id] }))
    assert.deepEqual(idsIn((await user.get(`${filesOf(directory)}?q=${text}`)).text), found, text);
  assert.match((await user.get(`${filesOf(directory)}?q=Rechnung`)).text, /No path contains &quot;Rechnung&quot;\./);

  const url = `${filesOf(directory)}/${id}/content`;
  const whole = await fetchBytes(berth, user, url);
  assert.equal(whole.status, 200);
  assert.ok(whole.body.equals(content));
  const { headers } = whole;
  assert.deepEqual(
    [headers['content-type'], headers['x-content-type-options'], headers['content-security-policy']],
    ['application/octet-stream', 'nosniff', "default-src 'none'; sandbox"],
  );
  assert.match(String(headers['content-disposition']), /^attachment; filename="report\.bin"/);
  const part = await fetchBytes(berth, user, url, { range: 'bytes=1000-1999' });
  assert.equal(part.status, 206);
  assert.ok(part.body.equals(content.subarray(1000, 2000)));
  assert.equal((await fetchBytes(berth, user, url, { 'if-none-match': String(headers.etag) })).status, 304);
  assert.equal((await fetchBytes(berth, user, url, { range: 'bytes=300000-' })).status, 416);

  const question = await user.post(
    `${filesOf(directory)}/${id}/delete?folder=${bytes('in/2026').toString('base64url')}`,
    questionIn(newest.text, 'Delete file'),
  );
  assert.match(question.text, /Delete file: in\/2026\/report\.bin.*<button class="danger solid">Delete file</s);
  assert.equal((await berth.uploads(directory)).length, 1, 'a question deletes nothing');
  const done = await user.submit(`${filesOf(directory)}/${id}/delete?folder=${bytes('in/2026').toString('base64url')}`);
  assert.match(done.text, /The file has been deleted\..*<bdi>2026<\/bdi>.*This folder is empty/s);
  assert.deepEqual([await berth.uploads(directory), await berth.storage(directory)], [[], 0]);
  assert.ok(!existsSync(join(directory.files, 'in/2026/report.bin')));
  assert.equal((await user.get(url)).status, 404);
  assert.equal((await user.post(`${filesOf(directory)}/${id}/delete`)).status, 404);
  await using database = await opened(berth);
  const audit = await database.db.selectFrom('audit').selectAll().where('action', '=', 'remove-file').execute();
  assert.deepEqual(
    audit.map(({ key_id, directory_id, changes }) => [key_id, directory_id, changes]),
    [[`user:${user.email}`, directory.id, '{"file":{"from":"in/2026/report.bin","to":null}}']],
  );
});

test('another account finds nothing of it, and a file that has changed stays', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await put(berth.place.dir, directory, 'mine', 'data');
  await until('it is recorded', async () => (await berth.uploads(directory)).length === 1);
  const [{ id } = { id: '' }] = await berth.uploads(directory);
  await using database = await opened(berth);
  const other = randomUUID();
  const account = { id: other, name: 'Other', plan: 'business', inserted_at: 1 } as const;
  await database.db.insertInto('accounts').values(account).execute();
  using stranger = await signedIn(place(berth), other);
  for (const path of ['', `/${id}/content`, '?folder=', '?q=m'])
    assert.equal((await stranger.get(filesOf(directory) + path)).status, 404, path);
  assert.equal((await stranger.post(`${filesOf(directory)}/${id}/delete`)).status, 404);

  using user = await signedIn(place(berth), berth.accountId);
  writeFileSync(join(directory.files, 'mine'), 'other data');
  for (const path of [`/${id}/content`, `/${id}/delete`]) {
    const asked = filesOf(directory) + path;
    const answer = path.endsWith('delete') ? await user.post(asked) : await user.get(asked);
    // The recorder may have seen the change first: then it is another upload.
    assert.ok([404, 409].includes(answer.status), String(answer.status));
  }
  assert.equal(readFileSync(join(directory.files, 'mine'), 'utf8'), 'other data');
});

test('names that are HTML, controls, directions, no text or very long stand on each page as text, and each link is right', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const names = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    `' onmouseover='alert(1)`,
    '&lt;b&gt;',
    'two\nlines\rX',
    '\x1b]0;title\x07',
    '\xe2\x80\xaegpj.exe',
    '\xff\xfe\xc0\xaf',
    '\xff\xfe\xc0\xae',
    'n'.repeat(255),
    '<'.repeat(255),
    '<i>/<b>/&amp;/\xff\xff/deep',
    '\xff\xff\xff/x',
    '..%2f..%2f',
    ' ',
  ];
  {
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    for (const [index, name] of names.entries()) {
      const parts = name.split('/');
      for (let depth = 1; depth < parts.length; depth += 1)
        await session.request(FXP.MKDIR, bytes(parts.slice(0, depth).join('/')), NO_ATTRIBUTES);
      assert.ok(await session.put(bytes(name), Buffer.from(`content ${index}`)), name);
    }
  }
  await until('all are recorded', async () => (await berth.uploads(directory)).length === names.length);
  using user = await signedIn(place(berth), berth.accountId);
  const contents = new Set<string>();
  const look = async (path: string): Promise<void> => {
    const { text, status } = await user.get(path);
    assert.equal(status, 200, path);
    assertPlain(text);
    for (const id of idsIn(text)) contents.add((await user.get(`${filesOf(directory)}/${id}/content`)).text);
    for (const [, _ask = ''] of text.matchAll(/name="_ask" value="([^"]*)"/g))
      assertPlain((await user.post(`${filesOf(directory)}/delete-selected`, { _ask: unescaped(_ask) })).text);
    const folders = [...text.matchAll(/<td[^>]*colspan="5"[^>]*><a[^>]* href="([^"]*)"/g)].map(
      ([, query = '']) => query,
    );
    for (const query of folders) await look(filesOf(directory) + query);
  };
  const all = names.map((_, index) => `content ${index}`).toSorted();
  await look(`${filesOf(directory)}?folder=`);
  assert.deepEqual([...contents].toSorted(), all, 'each file has its own link in some folder');
  contents.clear();
  await look(filesOf(directory));
  assert.deepEqual([...contents].toSorted(), all);
  await look(`${filesOf(directory)}?q=${encodeURIComponent('<script>')}`);
  await look(`${filesOf(directory)}?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  await look(`${filesOf(directory)}?folder=${encodeURIComponent('"><script>')}&after="><script>`);
});

/** Nothing of a name is markup, and no character hides. */
function assertPlain(text: string): void {
  assert.doesNotMatch(text, /<script>|<img|<i>|<b>|onmouseover='|onerror=alert\(1\)>/);
  // eslint-disable-next-line no-control-regex -- the test looks for them
  assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f\u202e]/);
}

async function opened(berth: TestBerth): Promise<Database & AsyncDisposable> {
  const database = await openDatabase(berth.config.database);
  return { ...database, [Symbol.asyncDispose]: () => database.close() };
}

test('the pages themselves: 40 a page, no file twice, and other states are named and have no links', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using database = await opened(berth);
  const rows = await recordFiles(
    database,
    directory.id,
    Array.from({ length: 250 }, (_, index) => bytes(`part-${String(index).padStart(4, '0')}.csv`)),
  );
  await recordFiles(database, directory.id, [bytes('a.filepart')], 'waiting');
  await recordFiles(database, directory.id, [bytes('b.cut')], 'partial');
  await recordFiles(database, directory.id, [bytes('c.placed')], 'placed');
  using user = await signedIn(place(berth), berth.accountId);
  for (const query of ['?', '?folder=', '?q=PART']) {
    const pages: string[][] = [];
    for (let next: string | undefined = query; next;) {
      const { text, status } = await user.get(filesOf(directory) + next);
      assert.equal(status, 200);
      assert.ok(text.length < 60_000, `${text.length} bytes`);
      pages.push(idsIn(text));
      next = nextOf(text);
    }
    assert.deepEqual(pages.flat().toSorted(), [...rows.keys()].toSorted(), query);
    assert.equal(pages.length, 7);
  }
  const { text } = await user.get(`${filesOf(directory)}?folder=`);
  for (const [name, state] of [
    ['a.filepart', 'temporary name'],
    ['b.cut', 'incomplete'],
    ['c.placed', 'put here for download'],
  ])
    assert.match(text, new RegExp(`<bdi>${name}</bdi></span> <span class="badge waiting">${state}<`));
});

test('a file’s webhook stands beside it, and is sent again from there: the same content, or a new one', async () => {
  let isUp = false;
  await using berth = await shared({ respond: (response) => response.writeHead(isUp ? 204 : 500).end() });
  const directory = await berth.directory();
  using user = await signedIn(place(berth), berth.accountId, 'member');
  await put(berth.place.dir, directory, 'a.csv', 'a');
  await until('it is recorded', async () => (await berth.uploads(directory)).length === 1);
  const [{ id } = { id: '' }] = await berth.uploads(directory);
  const cell = async (): Promise<string> =>
    /<a class="(?:bad|quiet)" href="webhook\/deliveries\/[^"]*">([^<]*)</.exec(
      (await user.get(filesOf(directory))).text,
    )?.[1] ?? '';
  await using database = await opened(berth);
  const deliveries = () =>
    database.db.selectFrom('deliveries').selectAll().where('upload_id', '=', id).orderBy('inserted_at').execute();
  await until('an attempt has failed', async () => (await cell()) === '✗ 500');
  assert.match((await user.submit(`${filesOf(directory)}/${id}/send`)).text, /The webhook is on the way already\./);
  assert.equal((await deliveries()).length, 1);

  await database.db
    .updateTable('deliveries')
    .set({ state: 'failed', due_at: null, finished_at: 1 })
    .where('upload_id', '=', id)
    .execute();
  // Old enough that it is found only by the time of its upload.
  const other = { directory_id: directory.id, account_id: berth.accountId, url: '', destination: '', attempts: 0 };
  for (let index = 0; index < 101; index += 1)
    await database.db
      .insertInto('deliveries')
      .values({ ...other, id: randomUUID(), body: Buffer.from('{}'), state: 'delivered', inserted_at: 1e17 })
      .execute();
  assert.equal(await cell(), '✗ 500');
  isUp = true;
  assert.match((await user.submit(`${filesOf(directory)}/${id}/send`)).text, /The webhook is on the way\./);
  const [first, again] = await deliveries();
  assert.deepEqual([first?.replayed_as, String(again?.body)], [again?.id, String(first?.body)]);
  await until('the answer is known', async () => (await cell()) === '✓ 204');

  await database.db.deleteFrom('deliveries').where('directory_id', '=', directory.id).execute();
  assert.equal(await cell(), '');
  assert.match((await user.submit(`${filesOf(directory)}/${id}/send`)).text, /The webhook is on the way\./);
  assert.equal((await deliveries()).length, 1);
  await database.db.deleteFrom('deliveries').where('directory_id', '=', directory.id).execute();
  await database.db.updateTable('directories').set({ webhook_url: null }).where('id', '=', directory.id).execute();
  assert.match((await user.submit(`${filesOf(directory)}/${id}/send`)).text, /This directory has no webhook\./);
  await using others = await shared();
  using stranger = await signedIn(place(others), others.accountId);
  assert.equal((await stranger.post(`${filesOf(directory)}/${id}/send`)).status, 404);
});
