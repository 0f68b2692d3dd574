/** `berth migrate-to`: moves the database from SQLite to PostgreSQL. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import type { MovedDatabase } from '../operating/backup/migrate-to.ts';
import { escaped } from '../foundation/base/terminal.ts';
import { SETTINGS } from '../foundation/base/settings-file.ts';
import type { Invocation } from './invocation.ts';

interface Options {
  readonly settings: string;
  readonly json?: true;
}

/** The pause between two lines about the same table. */
const PAUSE_MS = 1000;

export function migrateToCommand({ config, environment, print, stderr, catchSignals }: Invocation): Command {
  return new Command('migrate-to')
    .description('Move the SQLite database to an empty PostgreSQL database, while berth serve is stopped')
    .argument('<url>', 'postgres://user:password@host/name?sslmode=verify-full; - reads it from standard input')
    .option('--settings <file>', "the service's configuration, which gets the new database's URL", SETTINGS)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Stop berth serve only: logins and uploads go on. All rows are copied in one transaction and compared before it ends. Then the
settings name the new database, and the old file is renamed to ….migrated-<time>. You can interrupt it at any time: one
complete database is in use, and the same command does what is left.

Examples:
  createuser -P berth && createdb -O berth berth        on the server, as postgres
  systemctl stop berth && berth migrate-to - && systemctl start berth      type the URL, Enter, Ctrl-D, so that no process list shows it
  berth migrate-to 'postgres://berth:SECRET@db.example.com/berth?sslmode=verify-full&sslrootcert=/etc/berth/db-ca.pem'`,
    )
    .action(async (place: string, { settings, json }: Options) => {
      const { migrateTo } = await import('../operating/backup/migrate-to.ts');
      const url = place === '-' ? readFileSync(0, 'utf8').trim() : place;
      const stop = catchSignals();
      const progress = progressTo((line) => stderr(`${line}\n`));
      const moved = await migrateTo(config(), { url, environment, settings, progress, stop });
      if (json) print(JSON.stringify(jsonOf(moved, settings)));
      else for (const line of linesOf(moved, settings)) print(escaped(line));
    });
}

/** Prints counts of a table at intervals only. */
function progressTo(write: (line: string) => void): (line: string) => void {
  let shown = '';
  let since = 0;
  return (line) => {
    const step = line.split(':')[0] ?? '';
    const isDone = /: (\d+) of \1$/.test(line);
    if (step === shown && !isDone && performance.now() - since < PAUSE_MS) return;
    shown = step;
    since = performance.now();
    write(line);
  };
}

function jsonOf({ database, node, tables, isSet, kept }: MovedDatabase, settings: string): object {
  return { database, node, rows: tables ?? null, settings: isSet ? settings : null, kept: kept ?? null };
}

function* linesOf({ database, node, tables, isSet, kept }: MovedDatabase, settings: string): Generator<string> {
  if (tables === undefined) yield `The database is ${database} already`;
  else {
    const rows = Object.values(tables).reduce((sum, each) => sum + each, 0);
    yield `Copied ${rows} rows to ${database}, among them ${tables['directories'] ?? 0} directories of the node ${node}`;
    yield isSet
      ? `${settings} names it now`
      : `There is no ${settings}: set BERTH_DATABASE_URL wherever berth gets its settings`;
  }
  if (kept !== undefined)
    yield `The old database is kept as ${kept}: it holds secrets, so remove it once everything works`;
  yield 'Next: systemctl start berth';
}
