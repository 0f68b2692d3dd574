/** GET /api/v1/directories/:id */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, FULL_FIELDS } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

test('200: exactly eighteen fields, in order, without the password', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { sftp_password, ...made } = await api.directory({ metadata: { a: 1 } });
  const answer = await api.send('GET', `/directories/${made.id}`);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.deepEqual(Object.keys(dataOf(answer)), FULL_FIELDS);
  assert.deepEqual(answer.json, { data: made });
  assert.ok(!answer.text.includes(String(sftp_password)));
  const head = await api.send('HEAD', `/directories/${made.id}`);
  assert.deepEqual([head.status, head.text], [200, '']);
});

test('200: no response but the create response has the password, and none has the hash or the key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_password } = await api.directory();
  const row = await api.database.db.selectFrom('directories').selectAll().executeTakeFirstOrThrow();
  const answers = [
    await api.send('GET', '/directories'),
    await api.send('GET', `/directories/${id}`),
    await api.send('PATCH', `/directories/${id}`, { json: { directory: { name: 'B' } } }),
    await api.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode: 'both' } } }),
    await api.send('DELETE', `/directories/${id}/public_key`),
    await api.send('GET', `/directories/${id}/uploads`),
  ];
  for (const { status, text } of answers) {
    assert.equal(status, 200);
    for (const secret of [String(sftp_password), row.password_hash]) assert.ok(!text.includes(secret), text);
  }
  assert.ok(!api.log.join('').includes(String(sftp_password)));
  assert.ok(!api.log.join('').includes(api.tenant.key));
});

test('404: unknown ids and other accounts’ ids look the same on every endpoint', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const theirs = await api.directory({}, (await api.account('pro')).send);
  const ids = [theirs.id, '00000000-0000-4000-8000-000000000000', 'nonsense', '%ff', '%00', 'a'.repeat(5000)];
  for (const id of ids) {
    for (const [method, path] of [
      ['GET', `/directories/${id}`],
      ['PATCH', `/directories/${id}`],
      ['DELETE', `/directories/${id}`],
      ['GET', `/directories/${id}/uploads`],
      ['DELETE', `/directories/${id}/public_key`],
    ] as const) {
      const { status, json } = await api.send(method, path);
      assert.deepEqual([status, json], [404, { error: 'Directory not found' }], `${method} ${path.slice(0, 80)}`);
    }
  }
  assert.equal(api.host.served.size, 1, 'theirs is untouched');
});
