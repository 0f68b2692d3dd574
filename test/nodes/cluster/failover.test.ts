/**
 * A standby that lags takes over: users deleted with a 204 can never log in again, and each node reports the failover.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../support/poll.ts';
import { cluster, clustered, letsIn } from './cluster.ts';

const STANDBY = 'standby';

test('after a failover of PostgreSQL that loses commits, no deleted user can log in', clustered, async () => {
  await using place = await cluster({ a: {}, b: {} });
  const { server, directoryOn } = place;
  const [a, b] = [place.node('a'), place.node('b')];
  const [deleted, kept] = [await directoryOn(b), await directoryOn(b)];

  // The last that reaches the standby.
  const standby = join(server.folder, STANDBY);
  const socket = ['-h', server.folder, '-p', new URL(place.url).port, '-U', 'postgres'];
  await server.run('pg_basebackup', ...socket, '-D', standby, '-c', 'fast', '-X', 'stream', '--no-sync');
  writeFileSync(join(standby, 'standby.signal'), '');

  assert.equal((await a.send('DELETE', `/directories/${deleted.id}`)).status, 204);
  assert.equal(await letsIn(deleted), false);
  const lost = await directoryOn(b);
  await server.stop('immediate');
  await server.start(STANDBY);
  await server.run('pg_ctl', '-w', '-s', '-D', standby, 'promote');

  for (const node of [a, b]) {
    await until(`${node.name} is healthy`, () => node.isHealthy());
    await until(`${node.name} says so`, () => node.serve().output().includes('has another history than before'));
  }
  assert.equal((await a.send('GET', `/directories/${deleted.id}`)).status, 200, 'the database has lost that');
  assert.equal((await a.send('GET', `/directories/${lost.id}`)).status, 404);
  assert.equal(await letsIn(deleted), false);

  // What might bring the user back: a change, a restart of berth, and one of the machine.
  const renewed = await a.send('POST', `/directories/${deleted.id}/password`);
  assert.equal(renewed.status, 200, renewed.text);
  const { sftp_password: password } = (renewed.json as { data: { sftp_password: string } }).data;
  const isOut = async (): Promise<void> => {
    const entered = await Promise.all([letsIn(deleted), letsIn(deleted, password), letsIn(kept)]);
    assert.deepEqual(entered, [false, false, true]);
  };
  await isOut();
  await b.serve().kill('SIGTERM');
  await b.startHealthy();
  await until('it has compared its disk', () => b.serve().output().includes('no directory has this SFTP user'));
  assert.equal(await letsIn(lost), false);
  await until('it says so', () => b.serve().output().includes('was deleted on this node is in the database again'));
  await isOut();
  await b.powerOff();
  await b.startSshd();
  await isOut();
  await b.startHealthy();
  await isOut();
  assert.equal((await a.send('DELETE', `/directories/${deleted.id}`)).status, 204);
});
