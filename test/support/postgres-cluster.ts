/** Starts a PostgreSQL for the tests of one run, and ends it (node --test-global-setup). Nothing of it outlives the run, even one that is killed. */
import { execFileSync, spawnSync } from 'node:child_process';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { GUARDED, onPostgres, SOCKET, TEMPLATE, urlOf } from './postgres.ts';
import { type PostgresServer, postgresServer } from './postgres-server.ts';
import { ROOT } from './scratch.ts';

let server: PostgresServer | undefined;

export async function globalSetup(): Promise<void> {
  if (onPostgres) await startCluster();
}

/** The tests, or the benches, of this process and those that it starts find it. */
export async function startCluster(settings: readonly string[] = []): Promise<PostgresServer> {
  clearOld();
  server = await postgresServer({
    access: [`local all ${GUARDED} scram-sha-256`, 'local all all trust'],
    settings: ['listen_addresses=', ...settings],
  });
  await server.start();
  process.env[SOCKET] = server.folder;
  execFileSync('psql', ['-qX', '-d', urlOf('postgres'), '-c', `create database ${TEMPLATE}`]);
  await (await openDatabase(urlOf(TEMPLATE))).close();
  return server;
}

export async function globalTeardown(): Promise<void> {
  await server?.[Symbol.asyncDispose]();
}

/** Folders of test files that were killed with everything they had started, at least a day ago. Mounts there stay. */
function clearOld(): void {
  const old = ['-mindepth', '1', '-maxdepth', '1', '-name', '*-??????', '-mmin', '+1440'];
  spawnSync('find', [ROOT, ...old, '-exec', 'rm', '-rf', '--one-file-system', '{}', '+'], { stdio: 'ignore' });
}
