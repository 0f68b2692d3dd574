/** A directory's page: every action with its effect as the API, a login and the audit see it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signedIn } from '../support/dashboard.ts';
import {
  audited,
  dashboardOf,
  done,
  opens,
  passwordIn,
  pathOf,
  problemIn,
  shownByApi,
} from '../support/directory-page.ts';
import { dataOf } from '../support/field-sets.ts';
import { connect } from '../support/sftp-client.ts';
import { keyPair } from '../support/sftp-user.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';

const shared = sharedDashboard();

test('New password: shown once, in force, the old one refused; suspended refused, resumed let in', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const lets = (password: string) => opens(berth.place, berth, directory.username, password);

  const renewed = await done(user, `${path}/password`);
  const password = passwordIn(renewed) ?? '';
  assert.match(password, /^[A-Za-z0-9]{32}$/);
  assert.equal(passwordIn(await user.get(`${path}/access`)), undefined, 'shown once');
  assert.deepEqual([await lets(directory.password), await lets(password)], [false, true]);

  await using live = await connect({ ...directory.login, password });
  assert.match((await done(user, `${path}/suspend`)).text, /suspended<.*Resume/s);
  await live.closed;
  assert.equal(await lets(password), false);
  assert.match((await done(user, `${path}/resume`)).text, /Resumed\..*Suspend/s);
  assert.equal(await lets(password), true);

  assert.deepEqual(await audited(berth, directory).then((all) => all.slice(2)), [
    `update password_hash by user:${user.email} through POST /dashboard/directories/:id/password`,
    `update suspended by user:${user.email} through POST /dashboard/directories/:id/suspend`,
    `update suspended by user:${user.email} through POST /dashboard/directories/:id/resume`,
  ]);
});

test('public keys: added, listed, used, removed; the mode decides what lets in', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const pair = keyPair(berth.place.dir);
  const byKey = { port: directory.login.port, username: directory.username, privateKey: pair.privateKey };
  const letsKeyIn = async (): Promise<boolean> => {
    try {
      await using _connection = await connect(byKey);
      return true;
    } catch {
      return false;
    }
  };

  const added = await done(user, `${path}/public-keys`, {
    public_key: `${pair.publicKey.split(' ', 2).join(' ')} a <b>\u202e`,
  });
  assert.match(added.text, /a &lt;b&gt;<span class="hidden-character">U\+202E<\/span>/);
  assert.match(added.text, /Keys are ignored until you allow public keys\./);
  const [key] = dataOf<{ fingerprint: string }[]>(await berth.send('GET', `/directories/${directory.id}/public_keys`));
  assert.ok(key && added.text.includes(key.fingerprint));
  assert.equal(await letsKeyIn(), false);
  await done(user, `${path}/auth-mode`, { auth_mode: 'public_key' });
  assert.equal((await shownByApi(berth, directory))['auth_mode'], 'public_key');
  assert.deepEqual(
    [await letsKeyIn(), await opens(berth.place, berth, directory.username, directory.password)],
    [true, false],
  );

  const again = await user.post(`${path}/public-keys`, { public_key: pair.publicKey });
  assert.equal(again.status, 422);
  assert.equal(problemIn(again, 'public_key'), 'This key has already been added.');
  const wrong = await user.post(`${path}/public-keys`, { public_key: 'ssh-rsa AAAA</textarea><script>' });
  assert.equal(
    problemIn(wrong, 'public_key'),
    'This is not an OpenSSH public key: it should be one line such as ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH… name.',
  );
  assert.doesNotMatch(wrong.text, /<script>/);
  assert.equal((await user.post(`${path}/auth-mode`, { auth_mode: 'none' })).status, 422);

  const removed = await done(user, `${path}/public-keys/remove`, { fingerprint: key.fingerprint });
  assert.match(removed.text, /nobody can log in/);
  assert.equal(await letsKeyIn(), false);
  assert.equal((await user.post(`${path}/public-keys/remove`, { fingerprint: key.fingerprint })).status, 404);
  assert.equal((await shownByApi(berth, directory))['public_key_fingerprint'], null);
});

test('access: networks and expiry, as the API has them; what is wrong is said beside its field', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const access = () => shownByApi(berth, directory, '/access');

  await done(user, `${path}/access/limits`, {
    expires_at: '2099-01-02T03:04',
    allowed_networks: ' 203.0.113.0/24,\r\n::1 ',
  });
  const networks = ['203.0.113.0/24', '::1/128'];
  assert.deepEqual(await access(), {
    suspended: false,
    expires_at: '2099-01-02T03:04:00.000000Z',
    allowed_networks: networks,
  });
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), false);
  const page = await user.get(`${path}/access`);
  assert.match(page.text, /value="2099-01-02T03:04" id="expires_at"/);
  assert.match(page.text, /203\.0\.113\.0\/24\n::1\/128/);

  // A time that is more exact than the field shows stays as it is.
  const exact = '2099-01-02T03:04:05.000006Z';
  await berth.send('PATCH', `/directories/${directory.id}/access`, { json: { expires_at: exact } });
  await done(user, `${path}/access/limits`, { expires_at: '2099-01-02T03:04:05', allowed_networks: '' });
  assert.deepEqual(await access(), { suspended: false, expires_at: exact, allowed_networks: [] });
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), true);

  const wrong = await user.post(`${path}/access/limits`, {
    expires_at: 'soon',
    allowed_networks: '::1\r\n10.0.0.1/8\r\nnot an <b>',
  });
  assert.equal(wrong.status, 422);
  assert.equal(problemIn(wrong, 'expires_at'), 'Enter a date and time such as 2026-11-20 14:30.');
  assert.equal(
    problemIn(wrong, 'allowed_networks'),
    'Line 2: did you mean 10.0.0.0/8? Line 3: "not an <b>" is not an IP address or a CIDR range.',
  );
  assert.match(wrong.text, /10\.0\.0\.1\/8\r\nnot an &lt;b&gt;/, 'what was typed is still there');

  assert.match((await done(user, `${path}/access/limits`, { expires_at: '2001-01-01T00:00' })).text, />expired</);
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), false);
  await done(user, `${path}/access/limits`, { expires_at: '' });
  assert.equal(await opens(berth.place, berth, directory.username, directory.password), true);
});

test('settings: what a member sets as well; an unchanged form changes nothing; a quota says why there is none', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory({ metadata: { note: '<i>\u202e' } });
  const path = pathOf(directory);
  const fields = { name: 'Ärzte <GmbH>', description: 'a\r\nb', external_id: 'order "7"', max_connections: '3' };
  const saved = await done(member, `${path}/settings`, fields);
  assert.match(saved.text, /<h1>Ärzte &lt;GmbH&gt;<\/h1>/);
  assert.match(saved.text, /&lt;i&gt;<span class="hidden-character">U\+202E/);
  const shown = await shownByApi(berth, directory);
  const { name, description, external_id, max_connections } = shown;
  assert.deepEqual([name, description, external_id, max_connections], ['Ärzte <GmbH>', 'a\nb', 'order "7"', 3]);
  assert.deepEqual((await audited(berth, directory)).slice(2), [
    `update name,description,external_id,max_connections by user:${member.email} through POST /dashboard/directories/:id/settings`,
  ]);

  // A browser drops the line break of a name that an earlier version took.
  const odd = { name: 'two\nlines', external_id: 'x\ny' };
  await onDatabase(berth, ({ db }) =>
    db.updateTable('directories').set(odd).where('id', '=', directory.id).executeTakeFirst(),
  );
  const before = await shownByApi(berth, directory);
  await done(user, `${path}/settings`, { ...fields, name: 'twolines', external_id: 'xy' });
  assert.deepEqual(await shownByApi(berth, directory), before);
  await done(user, `${path}/settings`, { ...fields, external_id: '', description: '' });
  const emptied = await shownByApi(berth, directory);
  assert.deepEqual([emptied['external_id'], emptied['description']], [null, null]);

  const wrong = await user.post(`${path}/settings`, { name: ' ', max_connections: '0', external_id: 'x'.repeat(256) });
  assert.equal(wrong.status, 422);
  assert.equal(problemIn(wrong, 'name'), 'Enter a name.');
  assert.equal(problemIn(wrong, 'max_connections'), 'The number of connections must be 1 or more.');
  assert.equal(problemIn(wrong, 'external_id'), 'Use at most 255 characters.');
  assert.equal((await user.post(`${path}/settings`, { name: 'a\0b', max_connections: '1' })).status, 422);

  const quota = await user.post(`${path}/quota`, { max_bytes: '10' });
  assert.equal(quota.status, 409);
  assert.match(quota.text, /role="alert"[^>]*><p>No quota can be set: /);
  assert.equal(
    /Enter a size such as 500 MB or 2\.5 GB\./.test((await user.post(`${path}/quota`, { max_bytes: 'all' })).text),
    true,
  );
  await done(user, `${path}/quota`, { max_bytes: '' });
});
