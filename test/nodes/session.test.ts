/** A node's name, which no other node has, and its connection, which is restored. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sql } from 'kysely';
import { DatabaseUnavailable } from '../../src/foundation/db/away.ts';
import { openDatabaseSession } from '../../src/foundation/db/session.ts';
import { lockOf } from '../../src/operating/nodes/list.ts';
import { startBerth } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { startServe } from '../support/serve-process.ts';
import { created, letsIn, nodesPlace } from './nodes-place.ts';

test('a second machine of the same name does not start', postgresOnly, async () => {
  await using place = await nodesPlace('a');
  using other = scratch({ BERTH_DATABASE_URL: place.url, BERTH_NODE: 'a' });
  await assert.rejects(startBerth(other), /another machine is the node a: set another BERTH_NODE here/);
  created(await place.node('a').send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
});

test(
  'a node that lost its power takes its name back, even if the server still counts its connection',
  postgresOnly,
  async () => {
    await using place = await nodesPlace('a');
    const a = place.node('a');
    await a.berth.stop();
    // The connection of a machine that has gone without notice.
    const options = {
      name: 'gone',
      lock: lockOf('a'),
      channels: [],
      onMessage: () => undefined,
      onLost: () => undefined,
    };
    const gone = await openDatabaseSession(place.url, options);
    assert.ok(gone);
    await a.berth.start();
    created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
    await gone.close().catch(() => undefined);
  },
);

test('a home that lost its connection applies changes again within seconds', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(b, a);
  for (let round = 0; round < 3; round += 1) {
    // The server has the databases of other test files, too.
    psql(
      place.url,
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'berth node %'",
    );
    const { status, text, json } = await a.send('POST', `/directories/${directory.id}/password`);
    assert.equal(status, 200, text);
    assert.ok(await letsIn(b, directory, (json as { data: { sftp_password: string } }).data.sftp_password));
  }
  await until('both are back', async () => (await a.send('GET', '//healthz')).status === 200);
});

test('a session whose connection ended makes no other one, which nobody would close', postgresOnly, async () => {
  const database = freshDatabase();
  try {
    const name = 'berth node a';
    const connections = `from pg_stat_activity where datname = current_database() and application_name = '${name}'`;
    let losses = 0;
    const onLost = (): void => void (losses += 1);
    const session = await openDatabaseSession(database.url, {
      name,
      lock: name,
      channels: [],
      onMessage: () => undefined,
      onLost,
    });
    assert.ok(session);
    const statements = [sql`select pg_sleep(60)`.execute(session.db), session.notify('channel', 'waits for its turn')];
    const refused = Promise.all(statements.map((statement) => assert.rejects(statement, DatabaseUnavailable)));
    await until('the first one runs', () => psql(database.url, `select query ${connections}`).includes('pg_sleep'));
    psql(database.url, `select pg_terminate_backend(pid) ${connections}`);
    await refused;
    assert.equal(losses, 1);
    await until('no connection is left', () => psql(database.url, `select count(*) ${connections}`).trim() === '0');
  } finally {
    database.drop();
  }
});

test('60 creates at once on two nodes make as many directories as the plan allows', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  await place.db.updateTable('accounts').set({ plan: 'pro' }).execute();
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, i) =>
      place.node(i % 2 === 0 ? 'a' : 'b').send('POST', '/directories', { json: { directory: { name: `Acme ${i}` } } }),
    ),
  );
  const by = Object.groupBy(answers, ({ status, text }) => (status === 201 ? '201' : text));
  assert.deepEqual(
    Object.entries(by).map(([answer, given = []]) => [answer, given.length]),
    [
      ['201', 25],
      ['{"error":"Directory limit reached for your plan"}', 35],
    ],
  );
});

test('while all nodes are drained, no directory is created, and none is left', postgresOnly, async () => {
  await using place = await nodesPlace('a');
  await place.db.updateTable('nodes').set({ drained_at: 1 }).execute();
  const { status, headers, text } = await place
    .node('a')
    .send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
  assert.deepEqual([status, headers['retry-after']], [503, '5'], text);
  assert.deepEqual(await place.db.selectFrom('directories').select('id').execute(), []);
});

test('a node logs that the database has another history than before', postgresOnly, async () => {
  using place = scratch({ BERTH_NODE: 'a', BERTH_API_PORT: String(await freePort()) });
  const outputs: string[] = [];
  for (const before of [undefined, undefined, '0000000A-5']) {
    if (before !== undefined) writeFileSync(join(place.config.stateDir, 'database-history'), before);
    await using serve = await startServe(place.config, place.environment);
    outputs.push(serve.output());
    await serve.kill('SIGTERM');
  }
  assert.deepEqual(
    outputs.map((output) => output.includes('has another history than before')),
    [false, false, true],
  );
});
