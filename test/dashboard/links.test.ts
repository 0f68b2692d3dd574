/**
 * Links that are made on a directory's pages: by the rules of the API, shown once, listed, and revoked one by one or all at once; and
 * links to passwords.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DAY, type Micros, SECOND } from '../../src/foundation/base/clock.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { adaptRestored } from '../../src/operating/backup/restore.ts';
import { removeExpired } from '../../src/rules/users/sessions.ts';
import { apiClient } from '../support/api-client.ts';
import { type TestBerth, webhookOf } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { audited, done as submitted, opens, passwordIn, pathOf } from '../support/directory-page.ts';
import { dataOf } from '../support/field-sets.ts';
import { freePort } from '../support/free-port.ts';
import { ask } from '../support/links.ts';
import { movedClock } from '../support/moved-clock.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { onDatabase } from '../support/users.ts';

const place = (berth: TestBerth) => ({ config: berth.config, port: berth.service().dashboardPort ?? 0 });

const lines: string[] = [];
const log = createLog('debug', { write: (line) => void lines.push(line) });

/** Links name the API's port. */
const shared = sharedBerth({ BERTH_DASHBOARD: 'on', BERTH_API_PORT: String(await freePort()) }, { log });

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

/** A link that shows the directory's new password once, without the origin. */
async function passwordLink(user: Visitor, path: string): Promise<string> {
  const page = await submitted(user, `${path}/password`, { as: 'link' });
  assert.equal(passwordIn(page), undefined, 'nobody here sees it');
  assert.doesNotMatch(page.text, /Copy all/);
  return new URL(linkIn(page)).pathname;
}

const reveal = async (berth: TestBerth, link: string) => {
  const { status, text } = await ask(berth, link, { method: 'POST' });
  return { status, password: (JSON.parse(text) as { data?: { password: string } }).data?.password };
};

test('a link shows the new password once, when the button is pressed: it lets in, and neither database nor log has it', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  await berth.send('PATCH', `/directories/${directory.id}/access`, { json: { allowed_networks: ['127.0.0.0/8'] } });
  const link = await passwordLink(user, path);
  const [, , token = ''] = link.split('/');
  assert.equal(linkIn(await user.get(`${path}/access`)), '', 'the link is shown once');

  const browser = { accept: 'text/html' };
  for (const method of ['GET', 'HEAD', 'GET']) {
    const before = await ask(berth, link, { method, headers: browser });
    assert.equal(before.status, 200);
    assert.ok(!before.text.includes(directory.username) && !before.text.includes('<code>'));
    assert.match(method === 'GET' ? before.text : 'Show the password', /Show the password/);
    assert.deepEqual([before.headers['referrer-policy'], before.headers['cache-control']], ['no-referrer', 'no-store']);
    assert.match(String(before.headers['content-security-policy']), /^default-src 'none'/);
    assert.doesNotMatch(before.text, /(?:src|href)=/, 'nothing is fetched from anywhere');
  }
  assert.equal((await ask(berth, link, { method: 'PUT', body: 'x' })).status, 405);
  assert.equal((await ask(berth, `${link}x`, { method: 'POST' })).status, 403, 'another name');
  const list = dataOf<object[]>(await berth.send('GET', `/directories/${directory.id}/links`));
  assert.deepEqual(list, [{ ...list[0], for: 'password', path: '', once: true }]);
  const stored = await onDatabase(berth, ({ db }) =>
    db.selectFrom('links').selectAll().where('directory_id', '=', directory.id).executeTakeFirstOrThrow(),
  );

  const page = await ask(berth, link, { method: 'POST', headers: browser });
  const [, password = ''] = /<code>([A-Za-z0-9]{32})<\/code>/.exec(page.text) ?? [];
  assert.ok(password !== '' && !page.text.includes(directory.username), page.text);
  const lets = (one: string) => opens(berth.place, berth, directory.username, one);
  assert.deepEqual([await lets(directory.password), await lets(password)], [false, true]);
  const again = await ask(berth, link, { method: 'POST', headers: browser });
  assert.equal(again.status, 410);
  assert.match(again.text, /was shown before/);
  assert.equal((await ask(berth, link, { headers: browser })).status, 410);
  assert.deepEqual(dataOf(await berth.send('GET', `/directories/${directory.id}/links`)), []);

  const after = await onDatabase(berth, ({ db }) =>
    db.selectFrom('links').selectAll().where('id', '=', stored.id).executeTakeFirstOrThrow(),
  );
  assert.equal(after.password, null);
  for (const secret of [password, token]) {
    assert.ok(!JSON.stringify([stored, after, stored.password?.toString('latin1')]).includes(secret));
    assert.ok(!lines.join('\n').includes(secret), 'in the log');
  }
  const actions = await audited(berth, directory);
  const form = `by user:${user.email} through POST /dashboard/directories/:id/password`;
  assert.deepEqual(actions.slice(-3), [
    `update password_hash ${form}`,
    `create-link file ${form}`,
    'open-link address by link through POST /links/:token/*',
  ]);
  const { text } = await user.get(`${path}/activity`);
  assert.match(text, /created a one-time link to the password/);
  assert.match(text, /A link[^]{0,200}127\.0\.0\.1[^]{0,200}showed the password/);
});

test('of many who open a password’s link at once, one sees it', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const link = await passwordLink(user, pathOf(await berth.directory()));
  const all = await Promise.all(Array.from({ length: 8 }, () => reveal(berth, link)));
  assert.deepEqual(
    all.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, ...Array<number>(7).fill(410)],
  );
  assert.equal(all.filter(({ password }) => password !== undefined).length, 1);
});

test('a password’s link ends with the password, the directory and its time, and does not work while nobody may log in by it', async () => {
  await using berth = await shared();
  const clock = movedClock();
  await berth.stop();
  await berth.start(clock);
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const status = async (link: string) => (await reveal(berth, link)).status;

  const first = await passwordLink(user, path);
  const second = await passwordLink(user, path);
  assert.equal(await status(first), 403, 'replaced');
  await berth.send('POST', `/directories/${directory.id}/password`);
  assert.equal(await status(second), 403, 'a new password by the API');

  const third = await passwordLink(user, path);
  for (const [field, during, value] of [
    ['suspended', 1, 0],
    ['expires_at', 1, null],
    ['auth_mode', 'public_key', 'password'],
    // As a node with an older berth would change it.
    ['password_hash', 'other', undefined],
  ] as const) {
    const set = (to: string | number | null) =>
      onDatabase(berth, ({ db }) =>
        db
          .updateTable('directories')
          .set({ [field]: to })
          .where('id', '=', directory.id)
          .execute(),
      );
    const before = await onDatabase(berth, ({ db }) =>
      db.selectFrom('directories').select('password_hash').where('id', '=', directory.id).executeTakeFirstOrThrow(),
    );
    await set(during);
    assert.equal(await status(third), 403, field);
    await set(value === undefined ? before.password_hash : value);
  }
  assert.equal((await reveal(berth, third)).status, 200, 'none of these used it up');

  const fourth = await passwordLink(user, path);
  const list = await user.get(`${path}/links`);
  const [, id = ''] = /The password[^]*links\/([\da-f-]{36})\/revoke/.exec(list.text) ?? [];
  assert.match((await user.submit(`${path}/links/${id}/revoke`)).text, /The link has been revoked/);
  assert.equal(await status(fourth), 403, 'revoked');

  const fifth = await passwordLink(user, path);
  clock.offset = 7 * DAY - 60 * SECOND;
  assert.equal((await ask(berth, fifth)).status, 200);
  clock.offset = 7 * DAY + SECOND;
  assert.equal(await status(fifth), 410, 'expired');
  const rows = async (work: (database: Database) => Promise<unknown>) => {
    await onDatabase(berth, work);
    const links = await onDatabase(berth, ({ db }) =>
      db.selectFrom('links').select('kind').where('directory_id', '=', directory.id).execute(),
    );
    return links.map(({ kind }) => kind);
  };
  const upkeep = (now: Micros) => (database: Database) =>
    removeExpired({ database, clockLead: async () => ({ now, lead: 0 }) }, new AbortController().signal);
  assert.deepEqual(await rows(upkeep(clock.now())), ['password'], 'the clock may be wrong');
  assert.deepEqual(await rows(upkeep(clock.now() + DAY)), []);
  clock.offset = 0;
  using again = await signedIn(place(berth), berth.accountId);
  const sixth = await passwordLink(again, path);
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}`)).status, 204);
  assert.equal(await status(sixth), 403, 'the directory is deleted');

  const other = await berth.directory();
  const seventh = await passwordLink(again, pathOf(other));
  await berth.stop();
  await onDatabase(berth, (database) => adaptRestored(database, berth.config.node));
  await berth.start();
  assert.equal(await status(seventh), 403, 'it may have been opened since the backup');
});

test('only an admin of the account makes a link to a password', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const path = `${pathOf(directory)}/password`;
  using member = await signedIn(place(berth), berth.accountId, 'member');
  using reader = await signedIn(place(berth), berth.accountId);
  await onDatabase(berth, ({ db }) =>
    db.updateTable('users').set({ read_only: 1 }).where('email', '=', reader.email).execute(),
  );
  await using other = await shared();
  using stranger = await signedIn(place(berth), other.accountId);
  assert.equal((await member.post(path, { as: 'link' })).status, 403);
  assert.equal((await reader.post(path, { as: 'link' })).status, 403);
  assert.equal((await stranger.post(path, { as: 'link' })).status, 404);
  using admin = await signedIn(place(berth), berth.accountId);
  assert.equal((await admin.post(path, { as: 'link', _csrf: 'x' })).status, 403);
  for (const visitor of [member, reader])
    assert.doesNotMatch((await visitor.get(`${pathOf(directory)}/access`)).text, /by link|one-time link/);
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), true, 'the password stays');
});
