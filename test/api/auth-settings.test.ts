/** How customers log in: PATCH with auth_mode or public_key, DELETE of the key (specification, "States and transitions"), POST …/password. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { verify } from 'unixcrypt';
import { applyPending } from '../../src/rules/directories/pending-apply.ts';
import { dataOf, FULL_FIELDS, UUID } from '../support/field-sets.ts';
import { sharedHosted } from '../support/hosted.ts';
import { madeKeys } from '../support/made-keys.ts';
import { systemError } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';

const shared = sharedHosted();

test('200: every mode follows every mode, and the host has it', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const modes = ['password', 'public_key', 'both', 'password', 'both', 'public_key', 'password'];
  for (const auth_mode of modes) {
    const answer = await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode } } });
    assert.equal(answer.status, 200);
    assert.deepEqual(Object.keys(dataOf(answer)), FULL_FIELDS);
    assert.equal(dataOf(answer)['auth_mode'], auth_mode);
    assert.equal(api.host.served.get(sftp_username)?.auth_mode, auth_mode);
  }
  const calls = api.host.calls.length;
  assert.equal(await applyPending(api.rules), 0);
  assert.equal(api.host.calls.length, calls, 'there was nothing left to apply');
  assert.deepEqual(
    await api.database.db.selectFrom('unapplied').selectAll().where('directory_id', '=', id).execute(),
    [],
  );
});

test('200: a key is stored with its fingerprint, the mode stays unless it is sent, and only auth fields count', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const [key] = madeKeys(1);
  const change = async (directory: object) =>
    dataOf(await api.send('PATCH', `/directories/${id}`, { json: { directory } }));

  const stored = await change({
    public_key: `${key.line} me@here`,
    name: 'Ignored',
    max_connections: 0,
    webhook_url: 'nonsense',
  });
  assert.equal(stored['public_key_fingerprint'], key.fingerprint);
  assert.equal(stored['auth_mode'], 'password');
  assert.equal(stored['name'], 'Acme Corp');
  assert.equal(stored['max_connections'], 10);
  assert.equal(api.host.served.get(sftp_username)?.public_key, key.line);

  assert.equal((await change({ auth_mode: 'both', public_key: key.line }))['auth_mode'], 'both');
  assert.equal((await change({ auth_mode: 'public_key' }))['public_key_fingerprint'], key.fingerprint);
});

test('200: deleting the key goes back to the original password, whatever the mode, with or without a key', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const hash = api.host.served.get(sftp_username)?.password_hash;
  const [key] = madeKeys(1);
  for (const directory of [
    { auth_mode: 'both', public_key: key.line },
    { auth_mode: 'public_key' },
    { auth_mode: 'password' },
  ]) {
    await api.send('PATCH', `/directories/${id}`, { json: { directory } });
    const answer = await api.send('DELETE', `/directories/${id}/public_key`);
    assert.equal(answer.status, 200);
    const { auth_mode, public_key_fingerprint } = dataOf(answer);
    assert.deepEqual({ auth_mode, public_key_fingerprint }, { auth_mode: 'password', public_key_fingerprint: null });
    const live = api.host.served.get(sftp_username);
    assert.deepEqual([live?.auth_mode, live?.public_key, live?.password_hash], ['password', null, hash]);
  }
});

test('403: auth settings need the admin role, basic fields do not', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const member = await api.key(api.tenant.accountId, 'member');
  const before = (await api.send('GET', `/directories/${id}`)).json;
  const refused = [
    await member('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'both' } } }),
    await member('PATCH', `/directories/${id}`, { json: { directory: { public_key: 'nonsense', name: 'x' } } }),
    await member('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: null } } }),
    await member('DELETE', `/directories/${id}/public_key`),
  ];
  for (const { status, json } of refused) assert.deepEqual([status, json], [403, { error: 'Not authorized' }]);
  assert.deepEqual((await api.send('GET', `/directories/${id}`)).json, before);
  assert.equal((await member('PATCH', `/directories/${id}`, { json: { directory: { name: 'B' } } })).status, 200);
  assert.equal((await member('DELETE', `/directories/${id}`)).status, 204);
});

/** An RSA key that is too short. */
function weakKey(): string {
  using place = scratch();
  const file = join(place.dir, 'id');
  execFileSync('ssh-keygen', ['-q', '-t', 'rsa', '-b', '1024', '-N', '', '-f', file]);
  return readFileSync(`${file}.pub`, 'utf8');
}

test('422: unknown modes and invalid keys', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const bad = [
    'is not a valid OpenSSH public key: it should be one line such as ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH… name',
  ];
  const cases: [object, object][] = [
    [{ auth_mode: 'none' }, { auth_mode: ['is invalid'] }],
    [{ auth_mode: 1 }, { auth_mode: ['is invalid'] }],
    [{ auth_mode: null }, { auth_mode: ["can't be blank"] }],
    [{ public_key: null }, { public_key: ["can't be blank"] }],
    [{ public_key: ' ' }, { public_key: ["can't be blank"] }],
    [{ public_key: 1 }, { public_key: ['is invalid'] }],
    [{ public_key: 'ssh-ed25519 AAAA' }, { public_key: bad }],
    [{ public_key: weakKey() }, { public_key: ['is an RSA key of 1024 bits, and should have at least 2048'] }],
    [
      { auth_mode: 'none', public_key: 'x' },
      { auth_mode: ['is invalid'], public_key: bad },
    ],
    [{ auth_mode: 'both', public_key: 'x' }, { public_key: bad }],
  ];
  for (const [directory, errors] of cases) {
    const { status, json } = await api.send('PATCH', `/directories/${id}`, { json: { directory } });
    assert.deepEqual([status, json], [422, { errors }]);
  }
  assert.equal(dataOf(await api.send('GET', `/directories/${id}`))['auth_mode'], 'password');
});

test('200: a different password each time, shown once and valid once it is answered; nothing else changes', async () => {
  const api = await shared();
  const created = await api.directory({ metadata: { a: 1 } });
  const { id, sftp_username } = created;
  const hash = (): string => api.host.served.get(sftp_username)?.password_hash ?? '';
  const seen = new Set([created['sftp_password']]);
  for (let round = 0; round < 3; round += 1) {
    const answer = await api.send('POST', `/directories/${id}/password`);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.equal(answer.headers['warning'], undefined);
    const { sftp_password, updated_at, ...others } = dataOf<Record<string, string>>(answer);
    assert.match(sftp_password ?? '', /^[A-Za-z0-9]{32}$/);
    assert.ok(verify(sftp_password ?? '', hash()), 'the host has it');
    for (const old of seen) assert.equal(verify(String(old), hash()), false);
    seen.add(sftp_password);
    assert.ok((updated_at ?? '') > String(created['updated_at']));
    assert.deepEqual({ ...others, updated_at: 0, sftp_password: 0 }, { ...created, updated_at: 0, sftp_password: 0 });
  }
  const shown = await api.send('GET', `/directories/${id}`);
  assert.deepEqual(Object.keys(dataOf(shown)), FULL_FIELDS);
});

test('a directory with keys only keeps the new password for another mode, and a warning says so', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const mode = (auth_mode: string) => api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode } } });
  await mode('public_key');
  const answer = await api.send('POST', `/directories/${id}/password`);
  assert.equal(
    answer.headers['warning'],
    '299 - "auth_mode is public_key: the password is not used until the mode allows it"',
  );
  assert.equal(dataOf(answer)['auth_mode'], 'public_key');
  await mode('both');
  const { sftp_password } = dataOf<{ sftp_password: string }>(answer);
  assert.ok(verify(sftp_password, api.host.served.get(sftp_username)?.password_hash ?? ''));
});

test('the audit names the change and shows no secret; the log has none either', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const { sftp_password } = dataOf<{ sftp_password: string }>(await api.send('POST', `/directories/${id}/password`));
  const rows = (await api.audit()).slice(1);
  assert.deepEqual(
    rows.map(({ changes, route }) => [route, changes]),
    [['POST /api/v1/directories/:id/password', '{"password_hash":{}}']],
  );
  assert.match(rows[0]?.directory_id ?? '', UUID);
  assert.equal([...api.log, ...api.requestLines].join().includes(sftp_password), false);
});

test('507 when the host has no room: its logins are blocked first, then stays as the row says', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  const answer = await api.send('POST', `/directories/${id}/password`);
  assert.deepEqual([answer.status, answer.json], [507, { error: 'Not enough storage space' }]);
  assert.ok(api.host.calls.includes(`block logins of ${sftp_username}`));
  api.host.fail(undefined);
  const again = await api.send('POST', `/directories/${id}/password`);
  const { sftp_password } = dataOf<{ sftp_password: string }>(again);
  assert.ok(verify(sftp_password, api.host.served.get(sftp_username)?.password_hash ?? ''));
});
