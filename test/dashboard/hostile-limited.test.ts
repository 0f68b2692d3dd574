/**
 * Somebody who is limited to a directory, or to reading, requests every route of the dashboard: nothing else of the account is
 * shown, and nothing of it changes.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dashboardRoutes } from '../support/dashboard-routes.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { entered, onDatabase, PASSWORD } from '../support/users.ts';
import {
  addressOf,
  everything,
  FORM_TYPE,
  FORMS,
  type Ids,
  idsIn,
  origin,
  place,
  stateOf,
  tokenOf,
} from './hostile-place.ts';

const ROUTES = dashboardRoutes();
/** What everybody has. */
const OWN = /^\/dashboard\/(?:profile|sign-|link|oidc|static)/;
const PAGES = ROUTES.filter(({ method, path }) => method === 'GET' && !OWN.test(path)).map(({ path }) => path);
const OURS = Object.entries(FORMS).filter(([route]) => !OWN.test(route));

const limit = (berth: TestBerth, { email }: Visitor, to: { directories?: string; read_only?: 1 }) =>
  onDatabase(berth, ({ db }) => db.updateTable('users').set(to).where('email', '=', email).execute());

/** The response; of live updates, the first. */
async function requested(berth: TestBerth, visitor: Visitor, path: string): Promise<{ status: number; text: string }> {
  if (!/\/events(?:\?|$)/.test(path)) return visitor.get(path);
  const cookie = [...visitor.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const { port, config } = place(berth);
  const headers = { cookie, accept: 'text/event-stream' };
  const outgoing = request({ host: '127.0.0.1', port, path, headers, ca: readFileSync(config.tls.cert) });
  outgoing.end();
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of incoming) {
    text += String(chunk);
    if (text.includes('\n\n')) break;
  }
  outgoing.destroy();
  return { status: incoming.statusCode ?? 0, text };
}

/** Two directories of the same account with one of everything, the second with texts that are nowhere else. */
async function twoDirectories(berth: TestBerth): Promise<{ mine: Ids; theirs: Ids; secrets: readonly string[] }> {
  const mine = await everything(berth);
  const theirs = await everything(berth);
  await berth.send('PUT', `/directories/${theirs.directories}/files/zebra.csv`, { body: 'zebra' });
  const { username, email } = await onDatabase(berth, async ({ db }) => {
    const directory = db.updateTable('directories').set({ name: 'Zebra' }).where('id', '=', theirs.directories);
    const { sftp_username } = await directory.returning('sftp_username').executeTakeFirstOrThrow();
    await db
      .updateTable('deliveries')
      .set({ body: Buffer.from('{"filename":"zebra.csv"}') })
      .where('directory_id', '=', theirs.directories)
      .execute();
    const none = { address: null, session_pid: null, from_path: null, began_at: null, reason: null, via: null };
    const whose = { directory_id: theirs.directories, account_id: berth.accountId, username: sftp_username };
    const at = systemClock().now();
    const transfer = { ...none, ...whose, at, event: 'uploaded', path: 'zebra.csv', bytes: 5 } as const;
    await db.insertInto('transfers').values(transfer).execute();
    const user = await db.selectFrom('users').select('email').where('id', '=', theirs.team).executeTakeFirstOrThrow();
    await until('the files are recorded', async () => {
      const waiting = await db.selectFrom('placements').selectAll().execute();
      return waiting.length === 0;
    });
    return { username: sftp_username, email: user.email };
  });
  const { link, sessions, ...shown } = theirs;
  assert.ok(link && sessions);
  return { mine, theirs, secrets: ['zebra', username, email, mine['api-keys'], ...Object.values(shown)] };
}

test('somebody limited to a directory sees and changes nothing else, on any route', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const { mine, theirs, secrets } = await twoDirectories(berth);
  using limited = await signedIn(place(berth), berth.accountId);
  await limit(berth, limited, { directories: JSON.stringify([mine.directories]) });
  const shows = (text: string): string[] => secrets.filter((secret) => text.toLowerCase().includes(secret));
  for (const route of PAGES) {
    const other = addressOf(route, theirs);
    const mixed = addressOf(route, { ...theirs, directories: mine.directories });
    const queries = [
      '',
      `?directory=${theirs.directories}`,
      '?directory=Zebra',
      '?q=zebra',
      '?directory=',
      '?file=zebra',
    ];
    for (const path of new Set([other, mixed, ...queries.map((query) => addressOf(route, mine) + query)])) {
      const { status, text } = await requested(berth, limited, path);
      assert.ok([200, 204, 303, 403, 404, 410, 409, 415].includes(status), `${path}: ${status}`);
      if (status === 200) {
        // The page repeats what was searched for.
        const own = decodeURIComponent(path).toLowerCase();
        assert.deepEqual(
          shows(text).filter((each) => !own.includes(each)),
          [],
          path,
        );
      }
      if (path === other && route.includes('/directories/:id')) assert.equal(status, 404, path);
    }
  }
  const listed = await limited.get('/dashboard/directories');
  assert.match(listed.text, new RegExp(mine.directories));
  assert.doesNotMatch(listed.text, />Home<|>Settings<|New directory/);
  assert.match((await limited.get('/dashboard/activity')).text, />a\.csv</, 'the history of the only directory');
  assert.match((await limited.get('/dashboard/deliveries')).text, />a\.csv</);

  const before = await stateOf(berth);
  const token = await tokenOf(limited);
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
  const fieldsOf = (fields: Record<string, string> = {}) =>
    new URLSearchParams({
      _csrf: token,
      ...fields,
      ...(fields['directory'] !== undefined && { directory: theirs.directories }),
      file: theirs.files,
    }).toString();
  for (const [route, { fields }] of OURS) {
    const ids = idsIn(route);
    // The forms of the own directory may be sent, but not for what is in the other.
    const foreign = ids.includes('directories') ? ids.map((part) => ({ ...mine, [part]: theirs[part] })) : [theirs];
    for (const each of foreign) {
      const { status } = await limited.send('POST', addressOf(route, each), headers, fieldsOf(fields));
      assert.ok([303, 403, 404].includes(status), `${route}: ${status}`);
    }
  }
  const put = `/dashboard/directories/${theirs.directories}/files/new.csv`;
  assert.equal((await limited.send('PUT', put, { 'x-csrf': token, origin: origin(berth) }, 'new')).status, 404);
  assert.equal(await stateOf(berth), before);
  const renamed = await limited.post(`/dashboard/directories/${mine.directories}/settings`, { name: 'Mine' });
  assert.equal(renamed.status, 303, 'the own directory can be changed');
});

test('somebody who may only read changes nothing but the own profile, and sees no button for it', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const { mine } = await twoDirectories(berth);
  using reader = await signedIn(place(berth), berth.accountId);
  await limit(berth, reader, { read_only: 1 });
  const before = await stateOf(berth);
  const token = await tokenOf(reader);
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
  for (const [route, { fields }] of OURS) {
    // It downloads the files.
    if (route.endsWith('/files/selected')) continue;
    const body = new URLSearchParams({ _csrf: token, ...fields }).toString();
    const { status, text } = await reader.send('POST', addressOf(route, mine), headers, body);
    assert.deepEqual([status, /<p>You may only read\./.test(text)], [403, true], route);
  }
  const put = `/dashboard/directories/${mine.directories}/files/new.csv`;
  assert.match(
    (await reader.send('PUT', put, { 'x-csrf': token, origin: origin(berth) }, 'new')).text,
    /You may only read/,
  );
  assert.equal(await stateOf(berth), before);
  const page = await reader.get(`/dashboard/directories/${mine.directories}/access`);
  assert.equal(page.status, 200);
  assert.match(page.text, /You may only read/);
  assert.doesNotMatch(page.text, /New password|Suspend access/);
  const settings = await reader.get(`/dashboard/directories/${mine.directories}/settings`);
  assert.match(settings.text, /<fieldset disabled(?:="")?>.*name="name"/s);
  const selected = { file: mine.partial };
  const zip = await reader.post(`/dashboard/directories/${mine.directories}/files/selected`, selected);
  assert.match(zip.text, /Some of the files no longer exist/, 'it is read, and not refused');
});

const shared = sharedDashboard();
const TEAM = '/dashboard/team';

test('an admin limits a user, who still changes the own password; the limits stay when a directory goes', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  using user = await entered(place(berth), berth.accountId, 'member');
  const one = await berth.directory({ name: 'One' });
  const two = await berth.directory({ name: 'Two' });
  const path = `${TEAM}/${user.id}`;
  const wrong = await admin.post(`${path}/role`, { role: 'member', access: 'reads', directories: 'nobody' });
  assert.match(wrong.text, /&quot;nobody&quot; is not the SFTP username of one of your directories/);
  const fields = { role: 'member', access: 'reads', directories: `${one.username}\n${two.id}` };
  assert.match((await admin.submit(`${path}/role`, fields)).text, /The role and the limits are saved.*read only, /s);
  assert.equal((await user.get('/dashboard/directories')).status, 303, 'the session has ended');
  // Another admin had opened the page before, and saves another role.
  const before = { was_role: 'member', was_access: 'changes', was_directories: '' };
  const stale = { ...before, role: 'admin', access: 'changes', directories: '' };
  assert.equal((await admin.post(`${path}/role`, stale)).status, 303);
  assert.match((await admin.get(TEAM)).text, new RegExp(`${user.email}</a>.*?Admin.*?read only, `, 's'));
  assert.equal((await admin.post(`${path}/role`, { ...stale, directories: one.username })).status, 422);
  assert.equal((await admin.post(`${path}/role`, { role: 'member' })).status, 303);
  const changes = await admin.get('/dashboard/activity?topic=changes');
  assert.match(changes.text, new RegExp(`made ${user.email} read-only; limited ${user.email} to 2 directories`));
  await user.post('/dashboard/sign-in', { email: user.email, password: PASSWORD });
  const own = { current_password: PASSWORD, password: 'another correct horse' };
  assert.equal((await user.post('/dashboard/profile/password', own)).status, 303);
  assert.equal((await user.post('/dashboard/profile/sessions/end-others')).status, 303);
  assert.equal((await user.get('/dashboard')).headers.location, '/dashboard/directories');
  assert.equal((await user.get(TEAM)).status, 403);

  await berth.send('DELETE', `/directories/${two.id}`);
  const shown = await admin.get(path);
  assert.match(shown.text, new RegExp(`name="directories"[^>]*>\\s*${one.username}\\n${two.id}<`));
  await admin.post(`${path}/role`, { ...fields, role: 'admin', directories: two.id });
  await user.post('/dashboard/sign-in', { email: user.email, password: own.password });
  assert.doesNotMatch((await user.get('/dashboard/directories')).text, new RegExp(one.id));
  await admin.post(`${path}/role`, { role: 'admin', access: 'changes', directories: '' });
  await user.post('/dashboard/sign-in', { email: user.email, password: own.password });
  assert.match((await user.get('/dashboard/directories')).text, new RegExp(one.id));
});

test('an invited user has the limits from the start; the last admin without limits stays one', async () => {
  await using berth = await shared();
  using admin = await entered(place(berth), berth.accountId);
  const { username } = await berth.directory();
  const invited = { email: 'limited@example.com', role: 'admin', access: 'changes', directories: username };
  const made = await admin.submit(TEAM, invited);
  assert.match(made.text, new RegExp(`<td[^>]*>Admin</td>.*${username}`, 's'));
  for (const limits of [
    { access: 'reads', directories: '' },
    { access: 'changes', directories: username },
  ])
    assert.equal((await admin.post(`${TEAM}/${admin.id}/role`, { role: 'admin', ...limits })).status, 409);
});
