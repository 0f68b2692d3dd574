/** `berth node …` as an operator runs it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runHere } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { postgresOnly, sqliteOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { created, nodesPlace, type NodesPlace, URL_OF_B } from './nodes-place.ts';

const at = ({ url }: NodesPlace) => ({ BERTH_DATABASE_URL: url, BERTH_NODE: 'c' });

async function listed(place: NodesPlace): Promise<Record<string, unknown>[]> {
  const { stdout, stderr } = await runHere(at(place), 'node', 'list', '--json');
  assert.equal(stderr, '');
  return JSON.parse(stdout) as Record<string, unknown>[];
}

test(
  'nodes are listed; a drained one gets no new directories; one is removed once it has none',
  postgresOnly,
  async () => {
    await using place = await nodesPlace('a', 'b');
    const [a, b] = [place.node('a'), place.node('b')];
    const { id } = await place.directoryOn(b, a);
    const [first, second] = await listed(place);
    assert.equal(first?.['name'], 'a');
    const { free_bytes: free, seen_at: seen, ...rest } = second ?? {};
    assert.deepEqual(rest, {
      name: 'b',
      sftp_host: '127.0.0.1',
      sftp_port: b.berth.sshd.port,
      api_url: URL_OF_B,
      state: 'live',
      directories: 1,
      storage_bytes: 0,
    });
    assert.ok(Number(free) > 0);
    assert.ok(Math.abs(Date.parse(String(seen)) - Date.now()) < 10_000);
    assert.match((await runHere(at(place), 'node', 'list')).stdout, /^NODE +STATE +DIRECTORIES/);

    const drained = await runHere(at(place), 'node', 'drain', 'b', '--json');
    assert.equal((JSON.parse(drained.stdout) as { state: string }).state, 'drained');
    for (let i = 0; i < 3; i += 1) {
      const made = created(await b.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
      assert.equal(made.sftp_port, a.berth.sshd.port);
    }
    assert.equal((await runHere(at(place), 'node', 'undrain', 'b')).stdout, 'Node b gets new directories again\n');
    assert.equal(
      created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } })).sftp_port,
      b.berth.sshd.port,
    );
    for (const directory of await place.db.selectFrom('directories').select('id').where('node', '=', 'b').execute())
      if (directory.id !== id) assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);

    const refusal = async (node: string) => {
      const { status, stderr } = await runHere(at(place), 'node', 'remove', node);
      assert.equal(status, 1);
      return stderr;
    };
    assert.match(await refusal('b'), /1 directory is at home on b: nothing has changed/);
    assert.match(await refusal('nobody'), /no node is called nobody: see berth node list/);
    await b.berth.stop();
    assert.deepEqual(
      (await listed(place)).map(({ state }) => state),
      ['live', 'away'],
    );
    assert.match(await refusal('b'), /1 directory is at home on b/);

    // Deleted while it is away: another node removes what the database has of it.
    assert.equal((await a.send('DELETE', `/directories/${id}`)).status, 503);
    const removed = await runHere(at(place), 'node', 'remove', 'b');
    assert.equal(removed.stdout, 'Removed node b\n', removed.stderr);
    assert.deepEqual(
      (await listed(place)).map(({ name }) => name),
      ['a'],
    );
    await until('its rows have gone', async () => {
      return (await place.db.selectFrom('directories').select('id').where('id', '=', id).execute()).length === 0;
    });
    assert.equal((await a.send('DELETE', `/directories/${id}`)).status, 204);
    assert.match(await refusal('a'), /at home on a/);
  },
);

test('with SQLite there are no nodes', sqliteOnly, async () => {
  using place = scratch();
  const { status, stderr } = await runHere(place.environment, 'node', 'list');
  assert.equal(status, 1);
  assert.match(stderr, /nodes need PostgreSQL/);
});
