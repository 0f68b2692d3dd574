/** The team: inviting, roles, disabling, removing, new links; members, other accounts and the last admin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { DAY, formatMicros, systemClock } from '../../src/foundation/base/clock.ts';
import type { TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { entered, invited, onDatabase, PASSWORD } from '../support/users.ts';

const shared = sharedDashboard();

const TEAM = '/dashboard/team';

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

const isIn = async (visitor: Visitor): Promise<boolean> => (await visitor.get('/dashboard/profile')).status === 200;

const lastAudit = (berth: TestBerth) =>
  onDatabase(berth, ({ reads }) =>
    reads.selectFrom('audit').select(['action', 'key_id', 'changes']).orderBy('id', 'desc').executeTakeFirstOrThrow(),
  );

test('an admin invites: the link is shown once, and anyone who has it can set the password', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  const page = await admin.get(TEAM);
  assert.match(page.text, /<label for="email">Email<.*<label for="role">Role<.*<button>Invite<\/button>/s);
  assert.match(page.text, /berth sends no email/);
  for (const [fields, message] of [
    [{ email: 'nobody', role: 'member' }, /Enter an email address such as/],
    [{ email: '"><script>x</script>@example.com', role: 'member' }, /Enter an email address such as/],
    [{ email: '', role: 'member' }, /Enter an email address\./],
    [{ email: admin.email.toUpperCase(), role: 'member' }, /A user with this email address already exists\./],
    [{ email: 'a@example.com', role: 'owner' }, /Choose one of the roles/],
  ] as const) {
    const refused = await admin.post(TEAM, fields);
    assert.equal(refused.status, 422, fields.email);
    assert.match(refused.text, message);
    assert.ok(!refused.text.includes('<script>x'));
  }
  const made = await admin.submit(TEAM, { email: ' New@Example.com ', role: 'member' });
  assert.match(made.text, /<h1>new@example\.com<\/h1>/);
  const [, link = ''] = /data-secret="link">([^<]*)</.exec(made.text) ?? [];
  assert.ok(link.startsWith(`https://127.0.0.1:${place(berth).port}/dashboard/link/`), link);
  const { action, key_id } = await lastAudit(berth);
  assert.deepEqual([action, key_id], ['create-user', `user:${admin.email}`]);
  assert.match(made.text, />invited<\/span> expires <time/);
  assert.doesNotMatch(made.text, /and the password is removed/, 'there is none yet');
  const [, id = ''] = /action="\/dashboard\/team\/([^/]*)\/link"/.exec(made.text) ?? [];
  assert.doesNotMatch((await admin.get(`${TEAM}/${id}`)).text, /data-secret/);
  using visitor = visitorOf(place(berth));
  const invitation = (await visitor.get(new URL(link).pathname)).text.replaceAll(/<[^>]*>/g, '');
  assert.match(invitation, new RegExp(`${admin.email} invited you to Test on berth.*Set password and sign in`, 's'));
  await visitor.post(new URL(link).pathname, { password: PASSWORD, repeated: PASSWORD });
  const list = await visitor.get(TEAM);
  assert.match(list.text, /new@example\.com.*Member.*<time.*off.*enabled/s);
  assert.match(
    (await admin.get(`${TEAM}/${id}`)).text,
    /name="_ask" value="Reset password…\n[^"]*\nThe user is signed out everywhere and the password is removed/,
  );
});

test('an admin’s change of a user counts from the next request on, and is in the audit', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  using user = await entered(place(berth), berth.accountId, 'member');
  const path = `${TEAM}/${user.id}`;
  const signIn = () => user.post('/dashboard/sign-in', { email: user.email, password: PASSWORD });

  assert.match((await admin.submit(`${path}/role`, { role: 'admin' })).text, /The role and the limits are saved/);
  assert.ok(!(await isIn(user)), 'a changed role ends the session');
  assert.match((await lastAudit(berth)).changes, /"role":\{"from":"member","to":"admin"\}/);
  assert.equal((await admin.post(`${path}/role`, { role: 'owner' })).status, 422);
  await signIn();
  assert.equal((await user.get(path)).status, 200, 'an admin now');

  assert.match((await admin.submit(`${path}/disable`)).text, /@example\.com is disabled and signed out\..*disabled/s);
  assert.ok(!(await isIn(user)));
  await signIn();
  assert.ok(!(await isIn(user)));
  assert.match((await admin.submit(`${path}/enable`)).text, /@example\.com can sign in again\..*enabled/s);
  await signIn();
  assert.ok(await isIn(user));

  const linked = await admin.submit(`${path}/link`);
  assert.match(linked.text, /It works once, for 24 hours/);
  assert.doesNotMatch(linked.text, /once you enable the user/);
  assert.ok(!(await isIn(user)));
  await signIn();
  assert.ok(!(await isIn(user)), 'the password is revoked');
  const [, link = ''] = /data-secret="link">([^<]*)</.exec(linked.text) ?? [];
  await user.post(new URL(link).pathname, { password: PASSWORD, repeated: PASSWORD });
  assert.ok(await isIn(user));
  await admin.submit(`${path}/disable`);
  assert.match((await admin.submit(`${path}/link`)).text, /The link works once you enable the user again/);

  assert.match((await admin.submit(`${path}/remove`)).text, /The user has been removed/);
  assert.ok(!(await isIn(user)));
  assert.equal((await admin.get(path)).status, 404);
  assert.ok(!(await admin.get(TEAM)).text.includes(user.email));
  assert.equal((await lastAudit(berth)).action, 'remove-user');
});

test('a user’s page has the keys and links that outlast the user, each to be revoked', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  using user = await entered(place(berth), berth.accountId);
  const path = `${TEAM}/${user.id}`;
  assert.match((await admin.get(path)).text, /This user has made no API key and no link that still works/);
  const { id } = await berth.directory({ name: 'Inbox of Acme' });
  const links = `/dashboard/directories/${id}/links`;
  const expires_at = formatMicros(systemClock().now() + DAY).slice(0, 19);
  const upload = { path: 'theirs/', max_bytes: '1 MB', expires_at, uses: 'often' };
  await user.post(`${links}?for=upload`, upload);
  await admin.post(`${links}?for=upload`, { ...upload, path: 'ours/' });
  await user.post('/dashboard/api-keys', { name: 'Nightly', role: 'member' });
  await admin.post('/dashboard/api-keys', { name: 'Ours', role: 'member' });
  const { text } = await admin.get(path);
  assert.match(text, />Nightly<.*API key.*>theirs\/<.*upload link, Inbox of Acme/s);
  assert.doesNotMatch(text, />Ours<|>ours\/</);
  assert.match(text, /Remove….*Revoke 1 API key.*End 1 link.*Remove and revoke/s);
  const [, link = ''] = /action="([^"]*\/links\/[^"]*\/revoke)"/.exec(text) ?? [];
  const [, key = ''] = /action="([^"]*\/api-keys\/[^"]*\/revoke)"/.exec(text) ?? [];
  assert.match(
    (await admin.submit(link, { directory: id })).text,
    /The link is revoked\..*>Nightly</s,
    'back to the user',
  );
  assert.match((await admin.submit(key)).text, /The key is revoked\./);
  assert.match((await admin.get(path)).text, /This user has made no API key and no link that still works/);
});

test('a user is removed with all keys and links, or with those that are chosen', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  const { id } = await berth.directory({ name: 'Inbox of Acme' });
  const expires_at = formatMicros(systemClock().now() + DAY).slice(0, 19);
  const made = async () => {
    const user = await entered(place(berth), berth.accountId);
    for (let n = 0; n < 3; n += 1) {
      await user.post('/dashboard/api-keys', { name: `Key ${n}`, role: 'member' });
      const link = { path: `theirs-${n}/`, max_bytes: '1 MB', expires_at, uses: 'often' };
      await user.post(`/dashboard/directories/${id}/links?for=upload`, link);
    }
    return user;
  };
  const left = (email: string) =>
    onDatabase(berth, async ({ db }) => ({
      keys: (
        await db.selectFrom('api_keys').select('revoked_at').where('created_by', '=', `user:${email}`).execute()
      ).filter(({ revoked_at }) => revoked_at === null).length,
      links: (await db.selectFrom('links').select('id').where('created_by', '=', `user:${email}`).execute()).length,
    }));
  using first = await made();
  assert.deepEqual(await left(first.email), { keys: 3, links: 3 });
  const all = { keys: 'revoke', links: 'end' };
  assert.match((await admin.submit(`${TEAM}/${first.id}/remove`, all)).text, /The user has been removed/);
  assert.deepEqual(await left(first.email), { keys: 0, links: 0 });
  assert.equal((await admin.get(`${TEAM}/${first.id}`)).status, 404);
  using second = await made();
  await admin.post(`${TEAM}/${second.id}/remove`, { links: 'end' });
  assert.deepEqual(await left(second.email), { keys: 3, links: 0 });
});

test('members see the list and change nothing; another account has no users here', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const other = await onDatabase(berth, (database) =>
    createAccount({ database, clock: systemClock() }, { name: 'Other', plan: 'free' }),
  );
  const theirs = await invited(berth, other.id);
  const ours = await invited(berth, berth.accountId);
  const page = await member.get(TEAM);
  assert.ok(page.text.includes(admin.email) && !page.text.includes(theirs.email));
  for (const control of ['Invite', `${TEAM}/${ours.id}`]) assert.ok(!page.text.includes(control), control);
  assert.equal((await member.get(`${TEAM}/${ours.id}`)).status, 403);
  assert.equal((await member.post(TEAM, { email: 'x@example.com', role: 'admin' })).status, 403);
  const before = await lastAudit(berth);
  for (const action of ['role', 'link', 'disable', 'enable', 'second-factor', 'remove']) {
    const fields = { role: 'admin' };
    assert.equal((await member.post(`${TEAM}/${ours.id}/${action}`, fields)).status, 403, action);
    const answers = [theirs.id, 'unknown'].map((id) => admin.post(`${TEAM}/${id}/${action}`, fields));
    for (const { status } of await Promise.all(answers)) assert.equal(status, 404, action);
  }
  assert.equal((await admin.get(`${TEAM}/${theirs.id}`)).status, 404);
  assert.deepEqual(await lastAudit(berth), before);
});

test('the last admin who can sign in stays an admin', async () => {
  await using berth = await shared();
  using admin = await entered(place(berth), berth.accountId);
  using member = await entered(place(berth), berth.accountId, 'member');
  for (const action of ['role', 'disable', 'remove']) {
    const refused = await admin.post(`${TEAM}/${admin.id}/${action}`, { role: 'member' });
    assert.equal(refused.status, 409, action);
    assert.match(refused.text, /is the account&#39;s last admin/);
  }
  assert.ok(await isIn(admin));
  const own = (await admin.get(`${TEAM}/${admin.id}`)).text;
  assert.match(own, /This is you/);
  assert.doesNotMatch(own, /Remove/);
  await admin.post(`${TEAM}/${member.id}/role`, { role: 'admin' });
  assert.equal((await admin.post(`${TEAM}/${admin.id}/role`, { role: 'member' })).status, 303);
  assert.ok(!(await isIn(admin)));
});

test('a long list has pages', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  const users = Array.from({ length: 150 }, (_, i) => ({
    id: `user-${i}`,
    account_id: berth.accountId,
    email: `u${String(i).padStart(3, '0')}@example.org`,
    role: 'member' as const,
    totp_step: 0,
    inserted_at: 1,
  }));
  await onDatabase(berth, ({ db }) => db.insertInto('users').values(users).execute());
  const first = await admin.get(TEAM);
  const [, next = ''] = /href="(\/dashboard\/team\?after=[^"]*)"/.exec(first.text) ?? [];
  const second = await admin.get(next);
  const emails = [first, second].flatMap(({ text }) => text.match(/u\d{3}@example\.org/g) ?? []);
  assert.deepEqual(new Set(emails), new Set(users.map(({ email }) => email)));
  assert.doesNotMatch(second.text, /\?after=/);
});
