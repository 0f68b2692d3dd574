/** Several keys of one directory, as SFTP users see them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import type { TestDirectory } from '../support/berth.ts';
import { madeKeys } from '../support/made-keys.ts';
import { sftp } from '../support/openssh-client.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { keyPair } from '../support/sftp-user.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('a key is rotated without a gap: both log in meanwhile, and an upload by the old one goes on', async () => {
  await using berth = await shared();
  const { id, login, username } = await berth.directory();
  const [old, fresh] = [keyPair(berth.place.dir, 'old'), keyPair(berth.place.dir, 'fresh')];
  const keys = `/directories/${id}/public_keys`;
  const opens = async (keyFile: string) => {
    const { port } = login;
    return (await sftp(berth.place.dir, { port, username, keyFile }, ['pwd'])).code === 0;
  };
  const add = async (public_key: string) => (await berth.send('POST', keys, { json: { public_key } })).status;
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'public_key' } } });

  assert.equal(await add(`${old.publicKey} command="id" \u001b[2Jold`), 201);
  await using connection = await connect({ port: login.port, username, privateKey: old.privateKey });
  const live = await sftpSession(connection);
  const handle = await live.open('big', 'w');
  await live.write(handle, Buffer.alloc(1000));

  assert.equal(await add(fresh.publicKey), 201);
  assert.deepEqual([await opens(old.file), await opens(fresh.file)], [true, true]);
  const stored = readFileSync(join(pathsOf(berth.config).authorizedKeys, username), 'utf8');
  assert.equal(stored, `${fresh.publicKey}\n${old.publicKey}\n`, 'no comment');

  const { json } = await berth.send('GET', keys);
  const { fingerprint = '' } = (json as { data: { fingerprint: string }[] }).data[1] ?? {};
  assert.equal((await berth.send('DELETE', `${keys}/${encodeURIComponent(fingerprint)}`)).status, 204);
  assert.deepEqual([await opens(old.file), await opens(fresh.file)], [false, true]);
  await live.write(handle, Buffer.alloc(1000), 1000);
  await live.close(handle);
  assert.equal((await berth.receiver.next()).body.includes('"size_bytes":2000'), true);
});

test('each key says when somebody last logged in with it; a password, and a key that is refused, are none', async () => {
  await using berth = await shared();
  const { place } = berth;
  const { id, login, username } = await berth.directory();
  const [used, idle, foreign] = [keyPair(place.dir, 'used'), keyPair(place.dir, 'idle'), keyPair(place.dir, 'foreign')];
  const keys = `/directories/${id}/public_keys`;
  for (const { publicKey } of [idle, used]) await berth.send('POST', keys, { json: { public_key: publicKey } });
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'both' } } });
  const lastUsed = async () => {
    // Remembered uses are written at the latest when it stops.
    await berth.stop();
    await berth.start();
    const { json } = await berth.send('GET', keys);
    return (json as { data: { last_used_at: string | null }[] }).data.map((key) => key.last_used_at);
  };
  const opens = async (keyFile: string) =>
    (await sftp(place.dir, { port: login.port, username, keyFile }, ['put /etc/hostname'])).code === 0;

  await using byPassword = await berth.connect({ id, login, username } as TestDirectory);
  await sftpSession(byPassword);
  assert.equal(await opens(foreign.file), false);
  assert.deepEqual(await lastUsed(), [null, null]);

  const before = new Date().toISOString();
  assert.equal(await opens(used.file), true);
  await berth.receiver.next();
  const [first, other] = await lastUsed();
  assert.ok(first && first > before, `${first}`);
  assert.equal(other, null);

  await using later = await berth.connect({ id, login, username } as TestDirectory);
  await sftpSession(later);
  assert.deepEqual(await lastUsed(), [first, null], 'a later login by password');
  assert.equal(await opens(idle.file), true);
  await berth.receiver.next();
  assert.ok(((await lastUsed())[1] ?? '') > first);
});

test('keys that log in at the same moment are all noted, each with its own login', async () => {
  await using berth = await shared();
  const { place } = berth;
  const { id, login, username } = await berth.directory();
  const pairs = Array.from({ length: 6 }, (_, i) => keyPair(place.dir, `key-${i}`));
  const keys = `/directories/${id}/public_keys`;
  for (const { publicKey } of pairs) await berth.send('POST', keys, { json: { public_key: publicKey } });
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'public_key' } } });
  const logins = await Promise.all(
    pairs.map(({ file: keyFile }) => sftp(place.dir, { port: login.port, username, keyFile }, ['pwd'])),
  );
  assert.deepEqual(
    logins.map(({ code }) => code),
    pairs.map(() => 0),
  );
  await berth.stop();
  await berth.start();
  const { json } = await berth.send('GET', keys);
  const used = (json as { data: { last_used_at: string | null }[] }).data.map((key) => key.last_used_at);
  assert.ok(
    used.every((at) => at !== null),
    JSON.stringify(used),
  );
  assert.ok(new Set(used).size > 1);
});

test('with a hundred keys the oldest and the newest log in', async () => {
  await using berth = await shared();
  const { id, login, username } = await berth.directory({ name: 'many' });
  const [first, last] = [keyPair(berth.place.dir, 'first'), keyPair(berth.place.dir, 'last')];
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'public_key' } } });
  for (const line of [first.publicKey, ...madeKeys(98).map((key) => key.line), last.publicKey]) {
    const { status } = await berth.send('POST', `/directories/${id}/public_keys`, { json: { public_key: line } });
    assert.equal(status, 201);
  }
  for (const { file } of [first, last]) {
    const { code, output } = await sftp(berth.place.dir, { port: login.port, username, keyFile: file }, ['pwd']);
    assert.equal(code, 0, output);
  }
});
