/** Files in the browser: uploading, previews, fetching several as one archive, and deleting them after a question. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { tableIn } from '../../src/interfaces/dashboard/preview.ts';
import type { TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { questionIn } from '../support/directory-page.ts';
import { dashboardOf, pathOf, unescaped } from '../support/directory-page.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);

async function tokenOf(user: Visitor): Promise<string> {
  return /name="_csrf" value="([^"]+)"/.exec((await user.get('/dashboard/directories')).text)?.[1] ?? '';
}

/** Sends a form and reads bytes, since a `Visitor` reads text. */
async function bytesOf(berth: TestBerth, user: Visitor, path: string, form: string) {
  const { config, port } = dashboardOf(berth);
  const headers = {
    cookie: [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
    origin: `https://127.0.0.1:${port}`,
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': Buffer.byteLength(form),
  };
  const ca = readFileSync(config.tls.cert);
  const outgoing = request({ ca, host: '127.0.0.1', port, path, method: 'POST', headers, agent: false });
  outgoing.end(form);
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: incoming.statusCode, headers: incoming.headers, body: await buffer(incoming) };
}

test('a file is put there by browser, whole and below its folder; not without the token of the session', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const token = await tokenOf(user);
  const put = (name: string, body: string, csrf = token) =>
    user.send(
      'PUT',
      `${pathOf(directory)}/files/${name}`,
      { 'x-csrf': csrf, 'content-type': 'application/octet-stream' },
      body,
    );
  const large = 'x'.repeat(200_000);
  assert.equal((await put('in/a%20b.txt', large)).status, 201);
  assert.equal(readFileSync(join(directory.files, 'in/a b.txt'), 'utf8'), large);
  assert.equal((await put('c.txt', 'y', '')).status, 403);
  assert.equal((await put('c.txt', 'y', 'A'.repeat(43))).status, 403);
  assert.equal((await put('in', 'y')).status, 409, 'a folder has that name');
  for (const name of ['..%2fc.txt', '%2e%2e/c.txt', 'a%00b'])
    assert.ok([404, 422].includes((await put(name, 'y')).status), name);
  assert.ok(!existsSync(join(directory.files, 'c.txt')));
  const other = await signedIn(dashboardOf(berth), berth.accountId);
  assert.equal(
    (
      await other.send(
        'PUT',
        `${pathOf({ id: 'none' })}/files/x`,
        { 'x-csrf': await tokenOf(other), 'content-type': 'application/octet-stream' },
        'y',
      )
    ).status,
    404,
  );
  other[Symbol.dispose]();
});

test('texts, tables and images are previewed unless the name misleads; several files are fetched and deleted', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const contents: Record<string, Buffer> = {
    'data.csv': Buffer.from('name;note\r\n"Ac;me";<b>"bold"</b>\r\n'),
    'notes.txt': Buffer.from('one\n<script>alert(1)</script>\u202e\n'),
    'pixel.png': PNG,
    'fake.png': Buffer.from('<svg onload=alert(1)>'),
    'page.svg': Buffer.from('<svg/>'),
    'letter.pdf': Buffer.from('%PDF-1.4'),
    'wide.csv': Buffer.from(`${'x,'.repeat(59)}last\n${'y,'.repeat(59)}last\n`),
  };
  for (const [name, content] of Object.entries(contents)) writeFileSync(join(berth.place.dir, name), content);
  const { code, output } = await sftp(
    berth.place.dir,
    directory.login,
    Object.keys(contents).map((name) => `put ${name}`),
  );
  assert.equal(code, 0, output);
  await until('all are recorded', async () => (await berth.uploads(directory)).length === Object.keys(contents).length);
  const ids = new Map((await berth.uploads(directory)).map(({ id, filename }) => [filename, id]));
  const of = (name: string, what: string) => `${pathOf(directory)}/files/${ids.get(name)}/${what}`;

  const table = await user.get(of('data.csv', 'preview'));
  assert.match(table.text, /<th scope="col"[^>]*>name<\/th><th scope="col"[^>]*>note</);
  assert.match(unescaped(table.text), /<bdi>Ac;me<\/bdi>/);
  assert.doesNotMatch(table.text, /<b>/);
  const text = await user.get(of('notes.txt', 'preview'));
  assert.match(text.text, /one\n&lt;script&gt;alert\(1\)&lt;\/script&gt;U\+202E/);
  assert.match((await user.get(of('pixel.png', 'preview'))).text, /<img class="preview" src="[^"]*\/view"/);
  const image = await user.get(of('pixel.png', 'view'));
  assert.equal(image.headers['content-type'], 'image/png');
  assert.match(String(image.headers['content-security-policy']), /sandbox/);
  const wide = await user.get(of('wide.csv', 'preview'));
  assert.match(wide.text, /50 of 60 columns are shown/);
  assert.equal(wide.text.match(/<td/g)?.length, 50);
  assert.doesNotMatch(
    (await user.get(`${pathOf(directory)}/files`)).text,
    new RegExp(`${ids.get('letter.pdf')}/preview`),
  );
  for (const name of ['fake.png', 'page.svg', 'data.csv', 'letter.pdf'])
    assert.equal((await user.get(of(name, 'view'))).status, 415, name);

  const form = (names: readonly string[], csrf: string, question?: string) =>
    new URLSearchParams([
      ['_csrf', csrf],
      ...(question === undefined ? [] : [['_ask', question] satisfies [string, string]]),
      ...names.map((name): [string, string] => ['file', ids.get(name) ?? '']),
    ]).toString();
  const chosen = ['data.csv', 'pixel.png'];
  const path = `${pathOf(directory)}/files/selected`;
  const zip = await bytesOf(berth, user, path, form(chosen, await tokenOf(user)));
  assert.equal(zip.status, 200);
  const archive = join(berth.place.dir, 'all.zip');
  writeFileSync(archive, zip.body);
  const script =
    'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print(chr(10).join(z.namelist()))';
  if (existsSync('/usr/bin/python3'))
    assert.deepEqual(
      execFileSync('python3', ['-c', script, archive], { encoding: 'utf8' }).trim().split('\n').toSorted(),
      chosen,
    );
  for (const name of chosen) assert.ok(zip.body.includes(contents[name] ?? ''), name);

  const all = await user.get(`${pathOf(directory)}/files`);
  const { _ask: asked } = questionIn(all.text, 'Delete selected');
  const remove = `${pathOf(directory)}/files/delete-selected`;
  const question = (await bytesOf(berth, user, remove, form(chosen, await tokenOf(user), asked))).body.toString();
  assert.match(question, /Delete selected: Acme.*This can’t be undone/s);
  for (const name of chosen) assert.ok(question.includes(`name="file" value="${ids.get(name)}"`), name);
  assert.ok(existsSync(join(directory.files, 'data.csv')), 'it was only asked');
  const gone = await bytesOf(berth, user, remove, form(chosen, await tokenOf(user)));
  assert.equal(gone.status, 303);
  assert.deepEqual(
    chosen.map((name) => existsSync(join(directory.files, name))),
    [false, false],
  );
  assert.ok(existsSync(join(directory.files, 'notes.txt')));
  const stale = ['data.csv', 'notes.txt'];
  const partly = await bytesOf(berth, user, path, form(stale, await tokenOf(user)));
  assert.equal(partly.status, 409);
  assert.match(partly.body.toString(), /Some of the files no longer exist/);
  for (const action of [path, remove]) {
    const nothing = await bytesOf(berth, user, action, form([], await tokenOf(user)));
    assert.match(String(nothing.headers.location), /done=none-selected$/);
  }
});

test('rows of CSV files: quotes, line ends in them, other separators, and what is cut off', async () => {
  assert.deepEqual((await tableIn('a,b\n"c ""d""","e\nf"\n', 10)).rows, [
    ['a', 'b'],
    ['c "d"', 'e\nf'],
  ]);
  assert.deepEqual((await tableIn('a\tb\r\n1\t"2', 10)).rows, [
    ['a', 'b'],
    ['1', '2'],
  ]);
  assert.deepEqual((await tableIn('a;b\n1;2\n3;4', 2)).rows, [
    ['a', 'b'],
    ['1', '2'],
  ]);
  assert.deepEqual((await tableIn('', 5)).rows, []);
});
