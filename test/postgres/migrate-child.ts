/**
 * The process that `migrate-to.test.ts` lets die: a move to PostgreSQL by the real modules.
 *
 *   node migrate-child.ts STEP URL SETTINGS      dies right after the statement, or the renamed file, that STEP matches
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import pg from 'pg';
import { migrateTo } from '../../src/operating/backup/migrate-to.ts';
import { readConfig } from '../../src/foundation/base/config.ts';

const [step = '', url = '', settings = ''] = process.argv.slice(2);
const last = new RegExp(step);

function took(what: string): void {
  if (last.test(what)) process.kill(process.pid, 'SIGKILL');
}

const rename = fs.renameSync;
fs.renameSync = (from, to) => {
  rename(from, to);
  took(`renamed ${String(from)}`);
};
syncBuiltinESMExports();

const query = pg.Client.prototype.query as (this: pg.Client, ...given: unknown[]) => unknown;
pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]): unknown {
  const result = query.apply(this, given);
  const statement = given[0];
  if (result instanceof Promise && typeof statement === 'string')
    result.then(() => took(statement)).catch(() => undefined);
  return result;
} as typeof pg.Client.prototype.query;

await migrateTo(readConfig(process.env), {
  url,
  environment: process.env,
  settings,
  progress: took,
  stop: new AbortController().signal,
});
process.stdout.write('finished');
