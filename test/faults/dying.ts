/**
 * Lets a process die right after its n-th durable step: a commit, or a call that changes the file system. The real modules
 * know nothing of it: what they call is wrapped here, in a program of the tests (`crash-child.ts`).
 *
 * Import it before any module under test. The process says what its last step was on standard output, then kills itself.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import Sqlite from 'better-sqlite3';
import type pg from 'pg';
import { isPostgresUrl } from '../../src/foundation/base/database-place.ts';

const CALLS = [
  'mkdirSync',
  'rmdirSync',
  'renameSync',
  'linkSync',
  'unlinkSync',
  'rmSync',
  'writeSync',
  'chownSync',
  'chmodSync',
] as const;

const [say, writeFile] = [fs.writeSync, fs.writeFileSync];
let left = Infinity;
let keep: ((step: string) => void) | undefined;
let tables = new Set<string>();

/** From here on, the `step`-th step is the last. */
export function dieAfter(step: number): void {
  left = step;
}

/**
 * From here on, copies a folder after each step to `into`/1, `into`/2 and so on, each with the step's name beside it. The process
 * waits meanwhile, so what it does without pause leaves there what its death would leave.
 */
export function keepEach(folder: string, into: string): void {
  let steps = 0;
  keep = (step) => {
    steps += 1;
    execFileSync('cp', ['-a', '--reflink=auto', folder, `${into}/${steps}`]);
    writeFile(`${into}/${steps}.step`, step);
  };
}

/** A step has been taken. */
export function took(step: string): void {
  keep?.(step);
  left -= 1;
  if (left !== 0) return;
  say(1, step);
  process.kill(process.pid, 'SIGKILL');
}

for (const name of CALLS) {
  const real = fs[name] as (...values: unknown[]) => unknown;
  Object.assign(fs, {
    [name](...values: unknown[]) {
      const result = real(...values);
      const path = values.findLast((value) => typeof value === 'string' && value.startsWith('/'));
      took(`${name.replace('Sync', '')}${typeof path === 'string' ? ` …/${path.split('/').slice(-2).join('/')}` : ''}`);
      return result;
    },
  });
}

/** The same of fs/promises, as far as files on their way use it. */
for (const name of ['open', 'unlink'] as const) {
  const real = fs.promises[name] as (...values: unknown[]) => Promise<unknown>;
  Object.assign(fs.promises, {
    async [name](...values: unknown[]) {
      const result = await real(...values);
      if (name !== 'open' || values[1] === 'wx')
        took(`${name} ${String(values[0]).split('/').at(-1)?.replace(/-.*/, '')}`);
      return result;
    },
  });
}
syncBuiltinESMExports();

const WRITES = /(?<!\b(?:key|for|do) )\b(insert into|update|delete from) "?(\w+)"?/g;

/** A statement has ended. Each commit is a step. */
function ended(sql: string, isInTransaction: boolean): void {
  for (const [, verb = '', table = ''] of sql.matchAll(WRITES)) tables.add(`${verb.split(' ')[0] ?? ''} ${table}`);
  if (isInTransaction || tables.size === 0) return;
  const written = [...tables].join(', ');
  tables = new Set();
  if (sql !== 'rollback') took(`commit: ${written}`);
}

const prepare = Sqlite.prototype.prepare;
Sqlite.prototype.prepare = function (this: Sqlite.Database, sql: string) {
  const statement = prepare.call(this, sql);
  for (const method of ['run', 'all', 'get'] as const) {
    const real = statement[method].bind(statement) as (...values: unknown[]) => unknown;
    Object.assign(statement, {
      [method](...values: unknown[]) {
        const result = real(...values);
        ended(sql, statement.database.inTransaction);
        return result;
      },
    });
  }
  return statement;
} as typeof prepare;

// Loading pg takes a fifth of the time that such a process lives.
if (isPostgresUrl(process.env['BERTH_DATABASE_URL'] ?? '')) wrapClient((await import('pg')).default.Client);

function wrapClient({ prototype }: typeof pg.Client): void {
  const inTransaction = new WeakSet<pg.Client>();
  const query = prototype.query as (...given: unknown[]) => Promise<pg.QueryResult>;
  Object.assign(prototype, {
    async query(this: pg.Client, sql: string, values: unknown[]) {
      const result = await query.call(this, sql, values);
      if (sql === 'begin') inTransaction.add(this);
      if (sql === 'commit' || sql === 'rollback') inTransaction.delete(this);
      ended(sql, inTransaction.has(this));
      return result;
    },
  });
}
