/**
 * Specification, "States and transitions" and Authentication 8: which method opens which directory. "What the service does" 3: a
 * change applies from the next login attempt, with no reload of sshd.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sftp } from '../support/openssh-client.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { sharedSshd } from '../support/shared-berth.ts';

const shared = sharedSshd();

test('each mode lets in exactly the methods that it names, with and without a stored key', async () => {
  const { place, sshd, host } = await shared();
  const key = keyPair(place.dir);
  const other = keyPair(place.dir, 'other');
  const expected = [
    { auth_mode: 'password', public_key: null, password: true, key: false },
    { auth_mode: 'password', public_key: key.publicKey, password: true, key: false },
    { auth_mode: 'public_key', public_key: key.publicKey, password: false, key: true },
    { auth_mode: 'public_key', public_key: null, password: false, key: false },
    { auth_mode: 'both', public_key: key.publicKey, password: true, key: true },
    { auth_mode: 'both', public_key: null, password: true, key: false },
  ] as const;
  await Promise.all(
    expected.map(async ({ auth_mode, public_key, ...allowed }) => {
      const row = directory({ auth_mode, public_key });
      await host.apply(row);
      const login = { port: sshd.port, username: row.sftp_username };
      const attempts = await Promise.all([
        sftp(place.dir, { ...login, password: PASSWORD }, ['pwd']),
        sftp(place.dir, { ...login, keyFile: key.file }, ['pwd']),
        sftp(place.dir, { ...login, keyFile: other.file }, ['pwd']),
        sftp(place.dir, { ...login, password: 'wrong' }, ['pwd']),
      ]);
      const what = `${auth_mode} ${public_key === null ? 'without' : 'with'} a key`;
      assert.deepEqual(
        attempts.map(({ code }) => code === 0),
        [allowed.password, allowed.key, false, false],
        `${what}: ${attempts.map(({ output }) => output).join('\n')}`,
      );
    }),
  );
});

test('mode and key changes count at the next login, and leave a live session alone', async () => {
  const { place, sshd, host } = await shared();
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
