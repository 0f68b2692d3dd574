/** POST /directories/:id/password, as an SFTP user sees it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { sftp } from '../support/openssh-client.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('a new password counts from the next login on, the old one never again, and a live session goes on', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const { id, login } = await berth.directory();
  await using connection = await connect(login);
  const live = await sftpSession(connection);
  const opens = async (password: string) => (await sftp(place.dir, { ...login, password }, ['pwd'])).code === 0;

  const answer = await berth.send('POST', `/directories/${id}/password`);
  const { sftp_password } = dataOf<{ sftp_password: string }>(answer);
  assert.deepEqual([await opens(login.password), await opens(sftp_password)], [false, true]);
  await live.put('still-here', 'data');

  const mode = async (auth_mode: string) =>
    berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode } } });
  await mode('public_key');
  const kept = dataOf<{ sftp_password: string }>(await berth.send('POST', `/directories/${id}/password`));
  assert.deepEqual([await opens(sftp_password), await opens(kept.sftp_password)], [false, false]);
  await mode('password');
  assert.deepEqual([await opens(sftp_password), await opens(kept.sftp_password)], [false, true]);
});
