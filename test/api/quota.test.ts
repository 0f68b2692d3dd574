/** /api/v1/directories/:id/quota. That the kernel enforces it is tested on a disk of its own (test/faults/quota.test.ts). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedHosted } from '../support/hosted.ts';
import { systemError } from '../support/recording-host.ts';

const shared = sharedHosted();

test('a quota is shown, set, changed and taken away; the host has it when the answer is there, and the audit who did it', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  await api.database.db.updateTable('directories').set({ storage_bytes: 7 }).where('id', '=', id).execute();
  const path = `/directories/${id}/quota`;
  const quota = (max_bytes: number | null) => ({ data: { max_bytes, used_bytes: 7 } });
  assert.deepEqual((await api.send('GET', path)).json, quota(null));
  for (const max_bytes of [0, 5_000_000_000, 2 ** 50, null]) {
    const { status, json } = await api.send('PUT', path, { json: { max_bytes } });
    assert.deepEqual([status, json], [200, quota(max_bytes)]);
    assert.equal(api.host.served.get(sftp_username)?.quota_bytes, max_bytes);
    assert.deepEqual((await api.send('GET', path)).json, quota(max_bytes));
  }
  assert.partialDeepStrictEqual((await api.audit()).at(-1), {
    route: 'PUT /api/v1/directories/:id/quota',
    changes: JSON.stringify({ quota_bytes: { from: 2 ** 50, to: null } }),
  });
});

test('409 says what to do where the disk has no quotas; an existing quota can still be removed', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const path = `/directories/${id}/quota`;
  await api.send('PUT', path, { json: { max_bytes: 1 } });
  api.host.obstacle = 'mount it with usrquota';
  const { status, json } = await api.send('PUT', path, { json: { max_bytes: 2 } });
  assert.deepEqual([status, json], [409, { error: 'No quota can be set: mount it with usrquota' }]);
  assert.partialDeepStrictEqual((await api.send('GET', path)).json, { data: { max_bytes: 1, used_bytes: 0 } });
  assert.equal((await api.send('PUT', path, { json: { max_bytes: null } })).status, 200);
});

test('bodies that are refused; a host that fails leaves a mark, and the next request applies it', async () => {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const path = `/directories/${id}/quota`;
  const good = { json: { max_bytes: 1 } };
  const wrong: [unknown, object][] = [
    [{}, { max_bytes: ["can't be blank"] }],
    [{ max_bytes: null, quota: 5 }, { quota: ['is unknown'] }],
    [{ max_bytes: '5' }, { max_bytes: ['is invalid'] }],
    [{ max_bytes: 1.5 }, { max_bytes: ['is invalid'] }],
    [{ max_bytes: -1 }, { max_bytes: ['must be greater than or equal to 0'] }],
    [{ max_bytes: 2 ** 50 + 1 }, { max_bytes: [`must be less than or equal to ${2 ** 50}`] }],
  ];
  for (const [json, errors] of wrong) {
    const answer = await api.send('PUT', path, { json });
    assert.deepEqual([answer.status, answer.json], [422, { errors }], JSON.stringify(json));
  }

  api.host.fail(systemError('EIO'));
  assert.equal((await api.send('PUT', path, good)).status, 500);
  const mark = api.database.db.selectFrom('unapplied').select('directory_id').where('directory_id', '=', id);
  assert.equal((await mark.execute()).length, 1);
  api.host.fail(undefined);
  assert.equal((await api.send('PUT', path, good)).status, 200);
  assert.equal(api.host.served.get(sftp_username)?.quota_bytes, 1);
});
