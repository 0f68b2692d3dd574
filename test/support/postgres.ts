/**
 * PostgreSQL for the tests: with `BERTH_TEST_DATABASE=postgres` a run has a server of its own (`postgres-cluster.ts`), and
 * each scratch a database in it, copied from one that has the schema.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';

/** Whether this run is on PostgreSQL. */
export const onPostgres = process.env['BERTH_TEST_DATABASE'] === 'postgres';

/** The folder of the server's socket. */
export const SOCKET = 'BERTH_TEST_POSTGRES_SOCKET';

export const TEMPLATE = 'berth_template';

/** For a test of what only SQLite has: its file, its lock, its log. */
export const sqliteOnly = { skip: onPostgres ? 'of the SQLite file' : false };

export function urlOf(name: string): string {
  const socket = process.env[SOCKET];
  if (socket === undefined) throw new Error('needs --test-global-setup=test/support/postgres-cluster.ts');
  return `postgres://postgres@/${name}?host=${socket}`;
}

/** A database with the schema and nothing in it. */
export function freshDatabase(): { readonly url: string; drop(): void } {
  const name = `t_${randomBytes(6).toString('hex')}`;
  run(`create database ${name} template ${TEMPLATE} strategy file_copy`);
  return { url: urlOf(name), drop: () => run(`drop database if exists ${name} with (force)`) };
}

function run(statement: string): void {
  execFileSync('psql', ['-qX', '-v', 'ON_ERROR_STOP=1', '-d', urlOf('postgres'), '-c', statement]);
}
