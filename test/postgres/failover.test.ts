/** A synchronous standby takes over under load: what was confirmed is there, and each upload is announced once. */
import assert from 'node:assert/strict';
import { appendFileSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { postgresOnly, psql } from '../support/postgres.ts';
import { postgresServer } from '../support/postgres-server.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';

const PRIMARY = '.s.PGSQL.5432';
const STANDBY = '.s.PGSQL.5433';

test('a synchronous standby takes over while clients upload and the API creates', postgresOnly, async () => {
  await using parts = new AsyncDisposableStack();
  const access = ['local all all trust', 'local replication all trust'];
  const server = parts.use(await postgresServer({ access, settings: ['listen_addresses='] }));
  await server.start();
  const admin = `postgres:///postgres?host=${server.folder}&user=postgres`;
  psql(admin, 'create database berth');
  const standby = join(server.folder, 'standby');
  const from = ['-h', server.folder, '-U', 'postgres'];
  await server.run('pg_basebackup', ...from, '-D', standby, '-c', 'fast', '-X', 'stream', '--no-sync', '-R');
  appendFileSync(join(standby, 'postgresql.auto.conf'), 'port = 5433\n');
  await server.start('standby');
  psql(admin, "alter system set synchronous_standby_names = '*'");
  psql(admin, 'select pg_reload_conf()');
  await until('it is synchronous', () => psql(admin, 'select sync_state from pg_stat_replication').trim() === 'sync');

  // The address that moves.
  const corner = parts.use(scratch({ BERTH_DATABASE_URL: '' }));
  const address = join(corner.dir, PRIMARY);
  symlinkSync(join(server.folder, PRIMARY), address);
  const url = `postgres:///berth?host=${corner.dir}&user=postgres`;
  const place = parts.use(scratch({ BERTH_DATABASE_URL: url, BERTH_NODE: 'one' }));
  const berth = parts.use(await startBerth(place));
  const directories = await Promise.all([1, 2, 3].map(() => berth.directory()));

  const over = new AbortController();
  const uploaded: string[] = [];
  const uploads = directories.map(async ({ login }, index) => {
    await using connection = await connect(login);
    const session = await sftpSession(connection);
    for (let count = 0; !over.signal.aborted; count += 1) {
      const name = `${index}-${count}`;
      await session.put(name, name);
      uploaded.push(name);
      await wait(30);
    }
  });
  const created: string[] = [];
  const statuses = new Set<number>();
  const creates = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const answer = await berth.send('POST', '/directories', { json: { directory: { name: 'Load' } } });
      statuses.add(answer.status);
      if (answer.status === 201) created.push((answer.json as { data: { id: string } }).data.id);
      await wait(20);
    }
  };
  const load = Promise.all([...uploads, creates()]);
  await until('there is load', () => uploaded.length > 30 && created.length > 5);
  await server.stop('immediate');
  const before = created.length;
  await server.run('pg_ctl', '-w', '-s', '-D', standby, 'promote');
  symlinkSync(join(server.folder, STANDBY), `${address}.new`);
  renameSync(`${address}.new`, address);
  await until('the API creates again', () => created.length > before + 5);
  over.abort();
  await load;

  const announced = (): string[] => berth.receiver.requests.map((request) => webhookOf(request).filename);
  await until('each upload is announced', () => new Set(announced()).size === uploaded.length);
  await wait(2500); // longer than a file that no session explains takes to be announced
  assert.deepEqual(announced().toSorted(), uploaded.toSorted());
  for (const id of created) assert.equal((await berth.send('GET', `/directories/${id}`)).status, 200);
  assert.deepEqual(statuses, new Set([201, 503]));
});
