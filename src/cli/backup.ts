/** `berth backup …` and `berth migrate-to`. */
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { Restored } from '../operating/backup/restore.ts';
import type { SettingsPlan } from '../operating/backup/settings.ts';
import { readConfig } from '../foundation/base/config.ts';
import { isPostgresUrl, shownPlace } from '../foundation/base/database-place.ts';
import { SETTINGS } from '../foundation/base/settings-file.ts';
import { counted, escaped } from '../foundation/base/text.ts';
import type { Invocation } from './invocation.ts';
import { integer } from './options.ts';
import { readFileSync } from 'node:fs';
import type { MovedDatabase } from '../operating/backup/migrate-to.ts';

interface Options {
  readonly settings: string;
  readonly json?: true;
}

export function backupCommand({ config, clock, print, catchSignals }: Invocation): Command {
  return new Command('backup')
    .description('Write database, host keys and configuration to one file; berth may run. PostgreSQL is not included')
    .argument(
      '<file>',
      'the archive, readable by root only; an existing one is replaced. With --keep, the folder of archives',
    )
    .option('--keep <count>', 'write a new archive into that folder, and keep the newest <count>', integer(1, 9999))
    .option('--settings <file>', "the service's configuration", SETTINGS)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
The customers' files are not in it: copy BERTH_JAIL_DIR afterwards, for example with rsync -aH --numeric-ids.
The archive appears whole or not at all: if this fails or is interrupted, an earlier one stays as it was.
With PostgreSQL the database is not in it either: dump it with pg_dump after this, and before you copy the files.

Examples:
  berth backup /var/backups/berth.tar
  berth backup --keep 14 /var/backups/berth      what berth-backup.timer does every night
  berth backup /var/backups/berth.tar && pg_dump -Fc -f /var/backups/berth.dump berth`,
    )
    .action(async (place: string, { settings, keep, json }: Options & { readonly keep?: number }) => {
      const { backUp } = await import('../operating/backup/backup.ts');
      const { database } = config();
      const { file, parts } = await backUp(config(), { file: place, keep, settings, clock, stop: catchSignals() });
      if (json) return print(JSON.stringify({ file, parts }));
      print(`Backed up to ${escaped(file)}: ${parts.join(' ')}`);
      if (isPostgresUrl(database)) {
        print(
          `The database ${escaped(shownPlace(database))} is not in it: dump it now, with pg_dump; then copy the files`,
        );
      }
    });
}

export function restoreCommand({ environment, print, catchSignals }: Invocation): Command {
  return new Command('restore')
    .description('Restore a backup, while berth serve is stopped')
    .argument('<file>', 'an archive of berth backup')
    .option('--force', 'even if there is data (which is kept) or if PostgreSQL is older than the backup')
    .option('--settings <file>', "the service's configuration", SETTINGS)
    .addOption(
      new Option('--settings-of <which>', "whose settings to use, if the backup's differ from this machine's").choices([
        'backup',
        'machine',
      ]),
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
On a machine without settings of its own, those of the backup are used. If this machine has others, nothing is restored until
you choose; settings that are replaced are kept as ….before-restore-<time>.

The whole archive is checked before anything changes. If you interrupt it, this machine has either its old state or the
restored one, whole. With PostgreSQL, restore the database first, and set BERTH_DATABASE_URL and BERTH_NODE: a backup of
another database or node is refused.

Examples:
  systemctl stop berth && berth restore /var/backups/berth.tar
  berth restore --force /var/backups/berth.tar      keeps the old files as ….before-restore-<time>`,
    )
    .action(async (file: string, { settings: own, settingsOf: choice, json, force = false }: RestoreArguments) => {
      const { restore } = await import('../operating/backup/restore.ts');
      const { planSettings } = await import('../operating/backup/settings.ts');
      const settings = await planSettings({ archive: resolve(file), file: own, choice, environment });
      const restored = await restore(readConfig(settings.environment), { file, settings, force, stop: catchSignals() });
      if (json) print(JSON.stringify(jsonOf(restored)));
      else for (const line of lines(restored, settings.what)) print(escaped(line));
    });
}

interface RestoreArguments extends Options {
  readonly settingsOf?: 'backup' | 'machine';
  readonly force?: boolean;
}

function jsonOf({ madeAt, directories, files, pending, withoutJail, kept, settings }: Restored): object {
  const counts = { directories, files, pending_webhooks: pending };
  return { made_at: madeAt, ...counts, without_jail: withoutJail, kept, settings: settings ?? null };
}

function* lines(
  { madeAt, directories, files, pending, withoutJail, kept, settings }: Restored,
  what: SettingsPlan['what'],
): Generator<string> {
  yield `Restored the backup of ${madeAt}: ${counted(directories, 'directory', 'directories')}, ${counted(files, 'file')}, ${counted(pending, 'webhook')} to be sent`;
  for (const path of kept) yield `The old file is kept as ${path}`;
  if (what === 'take') yield `The settings are now those of the backup: see ${settings}`;
  if (what === 'beside') yield `The settings of the backup are in ${settings}, and are not in use`;
  if (withoutJail.length === 0) return;
  const some = withoutJail.slice(0, 3).join(', ') + (withoutJail.length > 3 ? ', …' : '');
  yield `${counted(withoutJail.length, 'directory', 'directories')} without files here (${some}): copy them into BERTH_JAIL_DIR BEFORE berth serve starts, with rsync -aH --numeric-ids, or they count as removed. To start without files: berth prepare --accept-disk`;
}

// `berth migrate-to`: moves the database from SQLite to PostgreSQL.

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
      if (json) print(JSON.stringify(movedJson(moved, settings)));
      else for (const line of movedLines(moved, settings)) print(escaped(line));
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

function movedJson({ database, node, tables, isSet, kept }: MovedDatabase, settings: string): object {
  return { database, node, rows: tables ?? null, settings: isSet ? settings : null, kept: kept ?? null };
}

function* movedLines({ database, node, tables, isSet, kept }: MovedDatabase, settings: string): Generator<string> {
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
