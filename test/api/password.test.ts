/** POST /directories/:id/password: a new password for a directory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verify } from 'unixcrypt';
import { dataOf, FULL_FIELDS, UUID } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { systemError } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';

test('200: a different password each time, shown once and valid once it is answered; nothing else changes', async () => {
  using place = scratch();
  await using api = await hosted(place);
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
  using place = scratch();
  await using api = await hosted(place);
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

test('403 for a member, 404 for a directory of another account or none, and nothing changes', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const before = api.host.served.get(sftp_username);
  const path = `/directories/${id}/password`;
  const member = await api.key(api.tenant.accountId, 'member');
  const refused = await member('POST', path);
  assert.deepEqual([refused.status, refused.json], [403, { error: 'Not authorized' }]);
  const stranger = await api.account('business');
  const gone = crypto.randomUUID();
  for (const answer of [await stranger.send('POST', path), await member('POST', `/directories/${gone}/password`)])
    assert.deepEqual([answer.status, answer.json], [404, { error: 'Directory not found' }]);
  assert.equal((await (await api.account('free')).send('POST', path)).status, 403);
  assert.deepEqual(api.host.served.get(sftp_username), before);
});

test('the audit names the change and shows no secret; the log has none either', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const { sftp_password } = dataOf<{ sftp_password: string }>(await api.send('POST', `/directories/${id}/password`));
  const rows = await api.database.db.selectFrom('audit').selectAll().where('action', '=', 'update').execute();
  assert.deepEqual(
    rows.map(({ changes, route }) => [route, changes]),
    [['POST /api/v1/directories/:id/password', '{"password_hash":{}}']],
  );
  assert.match(rows[0]?.directory_id ?? '', UUID);
  assert.equal([...api.log, ...api.requestLines].join().includes(sftp_password), false);
});

test('with an Idempotency-Key a repeated request shows the same password and changes nothing', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const headers = { 'idempotency-key': 'again' };
  const first = await api.send('POST', `/directories/${id}/password`, { headers });
  const again = await api.send('POST', `/directories/${id}/password`, { headers });
  assert.deepEqual([again.status, again.text], [200, first.text]);
  const { sftp_password } = dataOf<{ sftp_password: string }>(first);
  assert.ok(verify(sftp_password, api.host.served.get(sftp_username)?.password_hash ?? ''));
});

test('507 when the host has no room: the directory is shut out first, then stays as the row says', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  const answer = await api.send('POST', `/directories/${id}/password`);
  assert.deepEqual([answer.status, answer.json], [507, { error: 'Not enough storage space' }]);
  assert.ok(api.host.calls.includes(`shut out ${sftp_username}`));
  api.host.fail(undefined);
  const again = await api.send('POST', `/directories/${id}/password`);
  const { sftp_password } = dataOf<{ sftp_password: string }>(again);
  assert.ok(verify(sftp_password, api.host.served.get(sftp_username)?.password_hash ?? ''));
});
