/** Directories at home on nodes: any node changes them, and their home has followed when the answer comes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kernelQuotas } from '../../src/machine/sftp/quota.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { connect } from '../support/sftp-client.ts';
import { created, letsIn, nodesPlace } from './nodes-place.ts';

test('a directory is live at its home when its create is answered, whichever node answers', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  for (const [home, through] of [
    [a, b],
    [b, a],
    [a, a],
  ] as const) {
    const directory = await place.directoryOn(home, through);
    assert.ok(await letsIn(home, directory), `${home.name} through ${through.name}`);
    assert.equal(await letsIn(home === a ? b : a, directory), false);
  }
});

test('a change through another node is in force when it is answered', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(b, a);
  const renewed = await a.send('POST', `/directories/${directory.id}/password`);
  assert.equal(renewed.status, 200, renewed.text);
  const { sftp_password: password } = (renewed.json as { data: { sftp_password: string } }).data;
  assert.equal(await letsIn(b, directory), false);
  assert.ok(await letsIn(b, directory, password));

  const suspended = await a.send('PATCH', `/directories/${directory.id}/access`, {
    json: { suspended: true },
  });
  assert.equal(suspended.status, 200, suspended.text);
  assert.equal(await letsIn(b, directory, password), false);
  const resumed = await a.send('PATCH', `/directories/${directory.id}/access`, {
    json: { suspended: false },
  });
  assert.equal(resumed.status, 200);
  assert.ok(await letsIn(b, directory, password));

  const session = await connect({ port: b.berth.sshd.port, username: directory.sftp_username, password });
  const expired = { expires_at: '2026-01-01T00:00:00Z' };
  assert.equal((await a.send('PATCH', `/directories/${directory.id}/access`, { json: expired })).status, 200);
  await session.closed;

  assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);
  assert.equal(await letsIn(b, directory, password), false);
  assert.equal((await b.send('GET', `/directories/${directory.id}`)).status, 404);
});

test('new directories go to the node with the fewest, where the space is alike', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a] = place.nodes;
  assert.ok(a);
  const ports: number[] = [];
  for (let i = 0; i < 6; i += 1)
    ports.push(created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } })).sftp_port);
  assert.deepEqual(
    place.nodes.map(({ berth }) => ports.filter((port) => port === berth.sshd.port).length),
    [3, 3],
  );
});

test('the home decides whether a quota can be set, not the node that gets the request', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const { id } = await place.directoryOn(b, a);
  const put = (): ReturnType<typeof a.send> => a.send('PUT', `/directories/${id}/quota`, { json: { max_bytes: 5 } });
  const said = (): Promise<{ quota_obstacle: string | null } | undefined> =>
    place.db.selectFrom('nodes').select('quota_obstacle').where('name', '=', 'b').executeTakeFirst();
  const own = kernelQuotas(b.berth.config.jailDir).obstacle();
  await until('b has said it', async () => (await said())?.quota_obstacle === (own ?? null));

  const says = (quota_obstacle: string | null): Promise<unknown> =>
    place.db.updateTable('nodes').set({ quota_obstacle }).where('name', '=', 'b').execute();
  await says('b has a disk without');
  assert.deepEqual((await put()).json, { error: 'No quota can be set: b has a disk without (on the node b)' });
  await says(null);
  assert.equal((await put()).status, 200);
});
