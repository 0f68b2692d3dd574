/** The rights of admins, members and strangers on a directory's page, and its deletion. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { TestBerth } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { audited, dashboardOf, done, opens, pathOf, problemIn, shownByApi } from '../support/directory-page.ts';
import { madeKeys } from '../support/made-keys.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

test('Delete directory: its name has to be typed as shown, and then it is gone', async () => {
  await using berth = await shared();
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  for (const [name, typed] of [
    ['Acme', 'Acme'],
    ['a  b\u202ec ', 'a bU+202Ec'],
    ['<script>alert(1)</script>', '<script>alert(1)</script>'],
  ] as const) {
    const directory = await berth.directory({ name });
    const path = pathOf(directory);
    const refused = await member.post(`${path}/delete`, { confirmation: 'acme' });
    assert.equal(refused.status, 422);
    assert.equal(problemIn(refused, 'confirmation'), 'The name doesn’t match.');
    assert.equal((await berth.send('GET', `/directories/${directory.id}`)).status, 200);
    const answer = await done(member, `${path}/delete`, { confirmation: typed });
    assert.match(answer.text, /<h1>Directories<\/h1>.*The directory and its files have been deleted/s);
    assert.equal((await member.get(path)).status, 404);
    assert.equal((await berth.send('GET', `/directories/${directory.id}`)).status, 404);
    assert.equal(await opens(berth.place, berth, directory.username, directory.password), false);
    const last = (await audited(berth, directory)).at(-1);
    assert.equal(last, `delete  by user:${member.email} through POST /dashboard/directories/:id/delete`);
  }
});

const ADMIN_ACTIONS = [
  'password',
  'suspend',
  'resume',
  'access/limits',
  'access/allow',
  'quota',
  'auth-mode',
  'public-keys',
  'public-keys/remove',
];

test('a member cannot change how customers log in, and sees no form for it', async () => {
  await using berth = await shared();
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const before = await shownByApi(berth, directory);
  for (const code of ['constructor', '__proto__', '<b>'])
    assert.doesNotMatch((await member.get(`${pathOf(directory)}/access?done=${code}`)).text, /class="notice"/);
  const { text: html } = await member.get(`${pathOf(directory)}/access`);
  for (const action of ADMIN_ACTIONS) {
    assert.ok(!html.includes(`action="${pathOf(directory)}/${action}"`), action);
    assert.equal((await member.post(`${pathOf(directory)}/${action}`, { max_bytes: '' })).status, 403, action);
  }
  assert.doesNotMatch(html, /New password|Suspend|Public key<\/label>/);
  assert.deepEqual(await shownByApi(berth, directory), before);
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), true);
});

test("every request for another account's directory gets the answer for an unknown one", async () => {
  await using berth = await shared();
  const [, , { line }] = madeKeys(3);
  const directory = await berth.directory();
  const before = await shownByApi(berth, directory);
  using stranger = await signedIn(dashboardOf(berth), await otherAccount(berth));
  const actions = ['', ...ADMIN_ACTIONS.map((action) => `/${action}`), '/settings', '/delete'];
  const fields = { name: 'Mine', confirmation: 'Acme', public_key: line, auth_mode: 'both', fingerprint: 'SHA256:x' };
  for (const action of actions) {
    const [theirs, nobodys] = await Promise.all(
      [directory, { id: '00000000-0000-4000-8000-000000000000' }].map((of) =>
        action === ''
          ? stranger.get(`${pathOf(of)}/access`)
          : stranger.post(`${pathOf(of)}${action}`, { max_connections: '1', ...fields }),
      ),
    );
    assert.equal(theirs?.status, 404, action);
    assert.equal(theirs.text, nobodys?.text, action);
  }
  assert.doesNotMatch((await stranger.get('/dashboard/directories')).text, new RegExp(directory.id));
  assert.deepEqual(await shownByApi(berth, directory), before);
});

async function otherAccount(berth: TestBerth): Promise<string> {
  const database = await openDatabase(berth.config.database);
  const id = '11111111-1111-4111-8111-111111111111';
  await database.db.insertInto('accounts').values({ id, name: 'Other', plan: 'business', inserted_at: 1 }).execute();
  await database.close();
  return id;
}
