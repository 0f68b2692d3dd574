/** Logins over the limit are counted in a file that stays small, however often somebody tries (openssh/admit). */
import assert from 'node:assert/strict';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, PASSWORD } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

const MOST = 1024 * 1024;

test('the count of denied logins grows up to 1 MiB and then starts again', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  await using host = hostOf(sshd.paths);
  const row = directory({ max_connections: 1 });
  await host.apply(row);
  const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
  const { deniedLogins } = sshd.paths;
  await using _first = await connect(login);
  writeFileSync(deniedLogins, '');
  truncateSync(deniedLogins, MOST - 1);
  const sizes: number[] = [];
  for (let i = 0; i < 3; i++) {
    await assert.rejects(connect(login));
    sizes.push(statSync(deniedLogins).size);
  }
  assert.deepEqual(sizes, [MOST, 0, 1]);
  // All at once: no count is lost, and no denied login gets in.
  await Promise.all(Array.from({ length: 8 }, () => assert.rejects(connect(login))));
  assert.equal(statSync(deniedLogins).size, 9);
});
