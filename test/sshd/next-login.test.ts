/** Specification, "What the service does" 3: a change applies from the next login attempt, with no reload of sshd. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sftp } from '../support/openssh-client.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

test('mode and key changes count at the next login, and leave a live session alone', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  await using host = hostOf(sshd.paths);
  const first = keyPair(place.dir, 'first');
  const second = keyPair(place.dir, 'second');
  const row = directory();
  const login = { port: sshd.port, username: row.sftp_username };
  const byPassword = async () => (await sftp(place.dir, { ...login, password: PASSWORD }, ['pwd'])).code === 0;
  const byKey = async (keyFile: string) => (await sftp(place.dir, { ...login, keyFile }, ['pwd'])).code === 0;

  await host.apply(row);
  await using live = await connect({ ...login, password: PASSWORD });
  const session = await live.sftp();

  await host.apply({ ...row, auth_mode: 'public_key', public_key: first.publicKey });
  assert.deepEqual([await byPassword(), await byKey(first.file)], [false, true]);

  await host.apply({ ...row, auth_mode: 'public_key', public_key: second.publicKey });
  assert.deepEqual([await byKey(first.file), await byKey(second.file)], [false, true]);

  await host.apply({ ...row, auth_mode: 'password', public_key: null });
  assert.deepEqual([await byPassword(), await byKey(second.file)], [true, false]);

  await new Promise<void>((resolve, reject) => {
    session.mkdir('still-here', (error) => (error ? reject(error) : resolve()));
  });
});
