/** Links that are made on a directory's pages: by the rules of the API, shown once, listed, and revoked one by one or all at once. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { apiClient } from '../support/api-client.ts';
import { type TestBerth, webhookOf } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { freePort } from '../support/free-port.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { sftpSession } from '../support/sftp-session.ts';

const place = (berth: TestBerth) => ({ config: berth.config, port: berth.service().dashboardPort ?? 0 });

/** Links name the API's port. */
const shared = sharedBerth({ BERTH_DASHBOARD: 'on', BERTH_API_PORT: String(await freePort()) });

/** The link that a page shows, as text. */
function linkIn({ text }: { text: string }): string {
  const [, link = ''] = /data-secret="link"[^>]*>([^<]+)</.exec(text) ?? [];
  return link.replaceAll('&amp;', '&');
}

/** By the holder of a link, without any other credentials. */
async function visit(berth: TestBerth, link: string, method = 'GET', body?: string) {
  const url = new URL(link);
  assert.equal(url.host, `127.0.0.1:${berth.service().port}`);
  using client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key: '' });
  const target = `/${url.pathname}${url.search}`;
  return await client.send(method, target, { authorization: null, ...(body !== undefined && { body }) });
}

const until = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 19);

for (const role of ['admin', 'member'] as const) {
  test(`${role === 'admin' ? 'an admin' : 'a member'} makes a link to download a file, which is shown once`, async () => {
    await using berth = await shared();
    using user = await signedIn(place(berth), berth.accountId, role);
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    await (await sftpSession(connection)).put('out & back.txt', 'content');
    const { id } = webhookOf(await berth.receiver.next()) as unknown as { id: string };

    const home = `/dashboard/directories/${directory.id}`;
    const list = await user.get(`${home}/files`);
    const [, address = ''] = /href="(links\?file=[^"]+)">Share link</.exec(list.text) ?? [];
    assert.ok(address !== '' && id !== '');
    const form = await user.get(`${home}/${address}`);
    assert.match(form.text, /aria-current="page">Share a file</);
    assert.match(form.text, /name="path"[^>]*value="out &amp; back\.txt"|value="out &amp; back\.txt"[^>]*name="path"/);
    assert.equal(linkIn(form), '');

    const fields = { path: 'out & back.txt', expires_at: until(1), uses: 'often' };
    const page = await user.submit(`${home}/links?for=download`, fields);
    const link = linkIn(page);
    assert.match(page.text, /This is the only time it is shown/);
    assert.doesNotMatch(page.text, /Create link/, 'the result replaces the form');
    const answer = await visit(berth, link);
    assert.deepEqual([answer.status, answer.text], [200, 'content']);
    assert.equal(linkIn(await user.get(`${home}/links?for=download`)), '');

    const { db, close } = await openDatabase(berth.config.database);
    const rows = await db
      .selectFrom('audit')
      .selectAll()
      .where('action', '=', 'create-link')
      .where('account_id', '=', berth.accountId)
      .execute();
    await close();
    assert.deepEqual(
      rows.map(({ key_id, route }) => [key_id, route]),
      [[`user:${user.email}`, 'POST /dashboard/directories/:id/links']],
    );
    assert.ok(rows.every(({ changes }) => changes.includes('out & back.txt') && !changes.includes('signature')));
  });
}

test('a link to upload takes a file of its size, once; all are revoked together', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = `/dashboard/directories/${directory.id}/links`;
  const fields = { path: 'in/scan.pdf', max_bytes: '1 KB', expires_at: until(7), uses: 'once' };
  const link = linkIn(await user.submit(`${path}?for=upload`, fields));
  assert.match((await visit(berth, link)).text, /Up to 1 KB, until/);
  assert.equal((await visit(berth, link, 'PUT', 'x'.repeat(1001))).status, 413);
  assert.equal((await visit(berth, link, 'PUT', 'scanned')).status, 201);
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 7);
  assert.equal(readFileSync(join(directory.files, 'in/scan.pdf'), 'utf8'), 'scanned');
  assert.equal((await visit(berth, link, 'PUT', 'again')).status, 410);

  const lasts = { ...fields, lasts: '30', expires_at: '', path: 'in/other.pdf' };
  const other = linkIn(await user.submit(`${path}?for=upload`, lasts));
  const { json } = await berth.send('GET', `/directories/${directory.id}/links`);
  const [{ expires_at } = { expires_at: '' }] = (json as { data: { expires_at: string }[] }).data;
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 30 * 86_400_000) < 60_000, expires_at);
  const third = linkIn(await user.submit(`${path}?for=upload`, { ...fields, path: 'in/' }));
  assert.match(third, /\/links\/[\w-]{32}\/$/);
  const list = await user.get(path);
  assert.match(list.text, /in\/other\.pdf[^]*upload, up to 1 KB, once/);
  assert.match(list.text, /<datalist id="path-choices"><option value="in\/">/, 'a folder that has a file');
  const download = await user.get(`${path}?for=download`);
  assert.match(download.text, /<datalist id="path-choices"><option value="in\/scan\.pdf">/);
  assert.doesNotMatch(list.text, /in\/scan\.pdf<|\/links\/[\w-]{32}\//, 'neither used ones nor URLs');
  // The newest is the first.
  const [, id = ''] = /links\/([\da-f-]{36})\/revoke/.exec(list.text) ?? [];
  const done = await user.submit(`${path}/${id}/revoke`);
  assert.match(done.text, /The link has been revoked/);
  assert.equal((await user.post(`${path}/${id}/revoke`)).status, 404, 'again, as in a second tab');
  assert.equal((await visit(berth, `${third}x`, 'PUT', 'late')).status, 403);
  assert.equal((await visit(berth, other, 'GET')).status, 200);
  const all = await user.submit(`${path}/revoke`);
  assert.match(all.text, /All existing links have been revoked/);
  assert.equal((await visit(berth, other, 'PUT', 'late')).status, 403);
});

test('refusals of the rules stand beside their field, with the input', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const { id } = await berth.directory();
  const path = `/dashboard/directories/${id}/links`;
  for (const [changed, words] of [
    [{ path: '../out' }, /Enter the path of a file such as/],
    [{ path: '' }, /Enter the path of the file\./],
    [{ max_bytes: 'huge' }, /Enter a size such as/],
    [{ max_bytes: '' }, /Enter a size/],
    [{ expires_at: '2020-01-01T00:00' }, /Choose a time in the future/],
    [{ expires_at: until(400) }, /Choose a time within 366 days/],
    [{ expires_at: '' }, /Enter a date and time/],
  ] as const) {
    const fields = { path: 'in/a', max_bytes: '1 MB', expires_at: until(1), uses: 'once', ...changed };
    const page = await user.post(`${path}?for=upload`, fields);
    assert.equal(page.status, 422, JSON.stringify(changed));
    assert.match(page.text, words);
    assert.match(page.text, /<option value="once" selected/);
  }
});

test('nobody makes a link to a directory of another account, or without the token of the session', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const { id } = await berth.directory();
  const fields = { path: 'a', expires_at: until(1), uses: 'often' };
  const other = '/dashboard/directories/00000000-0000-4000-8000-000000000000/links';
  assert.equal((await user.get(other)).status, 404);
  assert.equal((await user.post(other, fields)).status, 404);
  assert.equal((await user.post(`/dashboard/directories/${id}/links`, { ...fields, _csrf: 'x' })).status, 403);
});
