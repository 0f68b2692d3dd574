/** PATCH /api/v1/directories/:id with basic fields */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, FULL_FIELDS } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';
import { systemError } from '../support/recording-host.ts';

test('200: every basic field changes, slug and username never do', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { sftp_password: _, ...made } = await api.directory();
  const directory = {
    name: 'Brand New',
    description: 'd',
    webhook_url: 'http://example.com/hook?x=1',
    external_id: 'e',
    metadata: { a: [1] },
    max_connections: 3,
  };
  const ignored = { slug: 'x', sftp_username: 'x', retention_days: 9, storage_bytes: 9, sftp_password: 'x', id: 'x' };
  const answer = await api.send('PATCH', `/directories/${made.id}`, {
    json: { directory: { ...directory, ...ignored } },
  });
  assert.equal(answer.status, 200);
  const { updated_at, ...rest } = dataOf(answer);
  assert.deepEqual(Object.keys(dataOf(answer)), FULL_FIELDS);
  assert.deepEqual({ ...rest, updated_at: made['updated_at'] }, { ...made, ...directory });
  assert.ok(String(updated_at) > String(made['updated_at']));
  assert.equal(api.host.served.get(made.sftp_username)?.max_connections, 3, 'the new cap has reached the host');
  assert.deepEqual((await api.send('GET', `/directories/${made.id}`)).json, answer.json);
});

test('200: null clears what may be empty; what changes nothing leaves updated_at', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory({ description: 'd', external_id: 'e', metadata: { a: 1 } });
  const change = async (directory: object) =>
    dataOf(await api.send('PATCH', `/directories/${id}`, { json: { directory } }));
  await change({ webhook_url: 'https://example.com' });
  const cleared = await change({ description: null, external_id: null, metadata: null, webhook_url: null });
  const { description, external_id, metadata, webhook_url, updated_at } = cleared;
  assert.deepEqual(
    { description, external_id, metadata, webhook_url },
    { description: null, external_id: null, metadata: {}, webhook_url: null },
  );
  assert.equal((await change({ description: null, name: 'Acme Corp' }))['updated_at'], updated_at);
  assert.equal((await change({}))['updated_at'], updated_at);
});

test('422: each field says what is wrong with it, and nothing of the request is applied', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  const cases: [object, object][] = [
    [{ name: '' }, { name: ["can't be blank"] }],
    [{ name: null }, { name: ["can't be blank"] }],
    [{ name: 'x'.repeat(101) }, { name: ['should be at most 100 character(s)'] }],
    [{ webhook_url: 'ftp://example.com' }, { webhook_url: ['must start with https:// or http://'] }],
    [{ webhook_url: '' }, { webhook_url: ['must start with https:// or http://'] }],
    [{ webhook_url: 'https://' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 'https://exa mple.com' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 'https://user:%zz@example.com' }, { webhook_url: ['is invalid'] }],
    [{ webhook_url: 7 }, { webhook_url: ['is invalid'] }],
    [
      { webhook_url: `https://example.com/${'x'.repeat(2048)}` },
      { webhook_url: ['should be at most 2048 character(s)'] },
    ],
    [{ max_connections: 0, description: 'applied?' }, { max_connections: ['must be greater than or equal to 1'] }],
    [{ max_connections: null }, { max_connections: ["can't be blank"] }],
    [{ metadata: 'x' }, { metadata: ['is invalid'] }],
    [{ external_id: 'x'.repeat(256) }, { external_id: ['should be at most 255 character(s)'] }],
  ];
  const before = await api.send('GET', `/directories/${id}`);
  for (const [directory, errors] of cases) {
    const { status, json } = await api.send('PATCH', `/directories/${id}`, { json: { directory } });
    assert.deepEqual([status, json], [422, { errors }]);
  }
  assert.deepEqual((await api.send('GET', `/directories/${id}`)).json, before.json);
});

test('507: what the disk refuses is remembered and applied when there is room', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id } = await api.directory();
  api.host.fail(systemError('ENOSPC'));
  const { status } = await api.send('PATCH', `/directories/${id}`, { json: { directory: { max_connections: 2 } } });
  assert.equal(status, 507);
  const marks = await api.database.db.selectFrom('unapplied').select('directory_id').execute();
  assert.deepEqual(marks, [{ directory_id: id }]);
});
