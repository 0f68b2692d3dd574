/** Simulates a full disk for a database: a write fails, and its transaction with it. */
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { onPostgres } from './postgres.ts';

let made = 0;

/**
 * Refuses what a trigger can name, `update of name on directories` say; `when` is a condition for the row.
 * @returns what allows it again.
 */
export async function refuseWrites(db: Kysely<Tables>, write: string, when = 'true'): Promise<() => Promise<void>> {
  made += 1;
  const name = `refused_${made}`;
  const run = (statement: string) => sql.raw(statement).execute(db);
  if (!onPostgres) {
    await run(`create trigger ${name} before ${write} when ${when} begin select raise(abort, 'disk full'); end`);
    return async () => void (await run(`drop trigger ${name}`));
  }
  await run(`create function ${name}() returns trigger language plpgsql as $$ begin raise 'disk full'; end $$`);
  await run(`create trigger ${name} before ${write} for each row when (${when}) execute function ${name}()`);
  return async () => void (await run(`drop function ${name} cascade`));
}

/**
 * A full disk, as SQLite reports it (`SQLITE_FULL`): each row of that table needs more room than there is.
 * @returns what makes room again.
 */
export async function fillSqlite(db: Kysely<Tables>, table: keyof Tables): Promise<() => Promise<void>> {
  const run = (statement: string) => sql.raw<{ page_count: number }>(statement).execute(db);
  await run('create table if not exists filling (bytes blob)');
  const [{ page_count } = { page_count: 0 }] = (await run('pragma page_count')).rows;
  await run(`pragma max_page_count = ${page_count + 100}`);
  await run(
    `create trigger full_disk before insert on ${table} begin insert into filling values (zeroblob(10000000)); end`,
  );
  return async () => {
    await run('drop trigger full_disk');
    await run('pragma max_page_count = 4294967294');
  };
}
