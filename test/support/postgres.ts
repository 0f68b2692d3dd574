/**
 * PostgreSQL for the tests: with `BERTH_TEST_DATABASE=postgres` a run has a server of its own (`postgres-cluster.ts`), and
 * each scratch a database in it, copied from one that has the schema.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';

/** The environment of a process that runs tests or benches on PostgreSQL. */
export const ON_POSTGRES = { BERTH_TEST_DATABASE: 'postgres' } as const;

/** Whether this run is on PostgreSQL. */
export const onPostgres = process.env['BERTH_TEST_DATABASE'] === ON_POSTGRES.BERTH_TEST_DATABASE;

/** The folder of the server's socket. */
export const SOCKET = 'BERTH_TEST_POSTGRES_SOCKET';

export const TEMPLATE = 'berth_template';

/** The user who needs a password. A test that wants one creates it. */
export const GUARDED = 'guarded';

/** For a test of what only SQLite has: its file, its lock, its log, its plans of queries. */
export const sqliteOnly = { skip: onPostgres && 'of SQLite alone' };

/** For a test of PostgreSQL itself, whose other side is SQLite. */
export const postgresOnly = { skip: onPostgres ? false : 'needs BERTH_TEST_DATABASE=postgres' };

export function urlOf(name: string): string {
  const socket = process.env[SOCKET];
  if (socket === undefined) throw new Error('run it with scripts/test-postgres');
  return `postgres://postgres@/${name}?host=${socket}`;
}

export interface TestDatabase {
  readonly url: string;
  drop(): void;
}

/** A database with the schema and nothing in it; of another template, what that one has. */
export function freshDatabase(template = TEMPLATE): TestDatabase {
  const name = `t_${randomBytes(6).toString('hex')}`;
  run(`create database ${name} template ${template} strategy file_copy`);
  return { url: urlOf(name), drop: () => run(`drop database if exists ${name} with (force)`) };
}

/** What an operator does by hand. */
export function psql(url: string, statement: string): string {
  return execFileSync('psql', ['-qXAt', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', statement], { encoding: 'utf8' });
}

function run(statement: string): void {
  psql(urlOf('postgres'), statement);
}
