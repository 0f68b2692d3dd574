/** Specification, "States and transitions" and Authentication 8: which method opens which directory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sftp } from '../support/openssh-client.ts';
import { scratch } from '../support/scratch.ts';
import { directory, hostOf, keyPair, PASSWORD } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

test('each mode lets in exactly the methods that it names, with and without a stored key', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  await using host = hostOf(sshd.paths);
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
