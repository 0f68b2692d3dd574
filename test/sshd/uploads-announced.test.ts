/** Uploads with OpenSSH's own client: what is announced, listed and counted. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('a file, a file in sub-folders and an empty file are announced with their path below files/, signed', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Acme Corp', external_id: 'cust-1' });
  writeFileSync(join(berth.place.dir, 'report.csv'), 'a,b\n1,2\n');
  writeFileSync(join(berth.place.dir, 'empty'), '');
  const { code, output } = await sftp(berth.place.dir, directory.login, [
    'put report.csv',
    'mkdir in',
    'mkdir in/2026',
    'put report.csv in/2026/renamed.csv',
    'put empty',
  ]);
  assert.equal(code, 0, output);

  const requests = [await berth.receiver.next(), await berth.receiver.next(), await berth.receiver.next()];
  const hooks = requests.map(webhookOf).toSorted((a, b) => a.filename.localeCompare(b.filename));
  assert.deepEqual(
    hooks.map(({ filename, size_bytes }) => [filename, size_bytes]),
    [
      ['empty', 0],
      ['in/2026/renamed.csv', 8],
      ['report.csv', 8],
    ],
  );
  for (const request of requests) {
    const { directory_id, external_id, directory: slug, event } = webhookOf(request);
    assert.deepEqual([directory_id, external_id, slug, event], [directory.id, 'cust-1', 'acme-corp', 'file.uploaded']);
    const hex = createHmac('sha256', directory.secret).update(request.body).digest('hex');
    assert.equal(request.headers['x-service-signature'], `sha256=${hex}`);
  }
  const listed = await berth.uploads(directory);
  assert.deepEqual(
    listed.map(({ filename, size_bytes, uploaded_at }) => ({ filename, size_bytes, uploaded_at })),
    hooks
      .toSorted((a, b) => b.uploaded_at.localeCompare(a.uploaded_at))
      .map(({ filename, size_bytes, uploaded_at }) => ({ filename, size_bytes, uploaded_at })),
    'the list is newest first and agrees with the webhooks',
  );
  assert.equal(await berth.storage(directory), 16);
});

test('an overwrite is a new upload; put -p, chmod and touch are none; removals leave the list and the storage', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  writeFileSync(join(berth.place.dir, 'a'), 'first');
  await sftp(berth.place.dir, directory.login, ['put -p a']);
  const first = webhookOf(await berth.receiver.next());
  const [before] = await berth.uploads(directory);

  writeFileSync(join(berth.place.dir, 'a'), 'second!');
  await sftp(berth.place.dir, directory.login, ['put a', 'chmod 600 a', 'put -p a b', 'mkdir d', 'put a d/c']);
  const names = [];
  for (let i = 0; i < 3; i++) names.push(webhookOf(await berth.receiver.next()).filename);
  assert.deepEqual(names.toSorted(), ['a', 'b', 'd/c']);
  const rows = await berth.uploads(directory);
  const after = rows.find(({ filename }) => filename === 'a');
  assert.notEqual(after?.id, before?.id);
  assert.ok(after && after.uploaded_at > first.uploaded_at);
  assert.equal(await berth.storage(directory), 21);

  await sftp(berth.place.dir, directory.login, ['rm a', 'rm d/c', 'rmdir d']);
  await until('the removals are seen', async () => (await berth.uploads(directory)).length === 1);
  assert.equal(await berth.storage(directory), 7);
  assert.equal(berth.receiver.requests.length, 4, 'nothing but the four uploads was announced');
});

test('a directory without a webhook URL lists its uploads and announces nothing', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await berth.send('PATCH', `/directories/${directory.id}`, { json: { directory: { webhook_url: null } } });
  mkdirSync(join(berth.place.dir, 'up'));
  writeFileSync(join(berth.place.dir, 'up', 'a'), 'x');
  await sftp(berth.place.dir, directory.login, ['put -R up']);
  await until('the upload is listed', async () => (await berth.uploads(directory)).length === 1);
  assert.equal(berth.receiver.requests.length, 0);
});
