/** PATCH with auth_mode or public_key, and DELETE of the public key (specification, "States and transitions"). */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { applyPending } from '../../src/rules/directories/pending-apply.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { dataOf, FULL_FIELDS } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

function makeKey(place: Scratch, ...kind: string[]): { text: string; line: string; fingerprint: string } {
  const file = join(place.dir, `id${kind.join('')}`);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', ...kind, '-N', '', '-C', 'me@here', '-f', file]);
  const text = readFileSync(`${file}.pub`, 'utf8');
  const fingerprint = execFileSync('ssh-keygen', ['-lf', file], { encoding: 'utf8' }).split(' ')[1] ?? '';
  return { text, line: text.split(' ').slice(0, 2).join(' '), fingerprint };
}

test('200: every mode follows every mode, and the host has it', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  assert.equal(await applyPending({ ...api.rules, log: createLog('silent') }), 0);
  assert.equal(api.host.calls.length, calls, 'there was nothing left to apply');
  assert.deepEqual(await api.database.db.selectFrom('unapplied').selectAll().execute(), []);
});

test('200: a key is stored with its fingerprint, the mode stays unless it is sent, and only auth fields count', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const key = makeKey(place);
  const change = async (directory: object) =>
    dataOf(await api.send('PATCH', `/directories/${id}`, { json: { directory } }));

  const stored = await change({ public_key: key.text, name: 'Ignored', max_connections: 0, webhook_url: 'nonsense' });
  assert.equal(stored['public_key_fingerprint'], key.fingerprint);
  assert.equal(stored['auth_mode'], 'password');
  assert.equal(stored['name'], 'Acme Corp');
  assert.equal(stored['max_connections'], 10);
  assert.equal(api.host.served.get(sftp_username)?.public_key, key.line);

  assert.equal((await change({ auth_mode: 'both', public_key: key.line }))['auth_mode'], 'both');
  assert.equal((await change({ auth_mode: 'public_key' }))['public_key_fingerprint'], key.fingerprint);
});

test('200: deleting the key goes back to the original password, whatever the mode, with or without a key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const hash = api.host.served.get(sftp_username)?.password_hash;
  const key = makeKey(place);
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
  using place = scratch();
  await using api = await hosted(place);
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

test('422: unknown modes and invalid keys', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const { line } = makeKey(place);
  const bad = ['is not a valid OpenSSH public key'];
  const cases: [object, object][] = [
    [{ auth_mode: 'none' }, { auth_mode: ['is invalid'] }],
    [{ auth_mode: 1 }, { auth_mode: ['is invalid'] }],
    [{ auth_mode: null }, { auth_mode: ["can't be blank"] }],
    [{ public_key: null }, { public_key: ["can't be blank"] }],
    [{ public_key: ' ' }, { public_key: ["can't be blank"] }],
    [{ public_key: 1 }, { public_key: ['is invalid'] }],
    [{ public_key: 'ssh-ed25519 AAAA' }, { public_key: bad }],
    [{ public_key: `no-pty ${line}` }, { public_key: bad }],
    [{ public_key: `${line}\n${line}` }, { public_key: bad }],
    [
      { public_key: makeKey(place, '-t', 'rsa', '-b', '1024').line },
      { public_key: ['is an RSA key of 1024 bits, and should have at least 2048'] },
    ],
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
