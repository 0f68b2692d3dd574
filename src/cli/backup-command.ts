/** `berth backup` and `berth restore`. */
import { Command } from 'commander';
import type { Print } from './output.ts';

/** Where an installed berth has its configuration. */
const SETTINGS = '/etc/berth/berth.env';

export interface BackupArguments {
  readonly file: string;
  readonly settings: string;
}

export interface RestoreArguments extends BackupArguments {
  readonly force: boolean;
}

/** What there is to say of a restored backup. */
export interface RestoreReport {
  readonly madeAt: string;
  readonly directories: number;
  readonly files: number;
  readonly pending: number;
  readonly withoutJail: readonly string[];
  readonly kept: readonly string[];
  readonly settings: string | undefined;
}

interface Given {
  readonly settings: string;
  readonly json?: true;
}

/** @param run writes the archive; returns the names of what is in it. */
export function backupCommand(run: (given: BackupArguments) => Promise<readonly string[]>, print: Print): Command {
  return new Command('backup')
    .description('write database, host keys and configuration into one file; berth may run')
    .argument('<file>', 'the archive, readable by root only; replaced when it is there')
    .option('--settings <file>', "the service's configuration", SETTINGS)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      "\nThe customers' files are not in it: copy BERTH_JAIL_DIR after it, with rsync -aH --numeric-ids say.\n\nExample:\n  berth backup /var/backups/berth.tar",
    )
    .action(async (file: string, { settings, json }: Given) => {
      const parts = await run({ file, settings });
      print(json ? JSON.stringify({ file, parts }) : `Backed up to ${file}: ${parts.join(' ')}`);
    });
}

/** @param run puts the archive in place. */
export function restoreCommand(run: (given: RestoreArguments) => Promise<RestoreReport>, print: Print): Command {
  return new Command('restore')
    .description('put a backup in place; berth serve has to be stopped')
    .argument('<file>', 'what berth backup wrote')
    .option('--force', 'although there is data, which is kept beside', false)
    .option('--settings <file>', "the service's configuration", SETTINGS)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth restore /var/backups/berth.tar')
    .action(async (file: string, { settings, json, force }: Given & { force: boolean }) => {
      const report = await run({ file, settings, force });
      if (json) print(JSON.stringify(shown(report)));
      else for (const line of lines(report)) print(line);
    });
}

function shown({ madeAt, directories, files, pending, withoutJail, kept, settings }: RestoreReport): object {
  return {
    made_at: madeAt,
    directories,
    files,
    pending_webhooks: pending,
    without_jail: withoutJail,
    kept,
    settings: settings ?? null,
  };
}

function* lines(report: RestoreReport): Generator<string> {
  const { directories, files, pending, withoutJail } = report;
  yield `Restored the backup of ${report.madeAt}: ${directories} directories, ${files} files, ${pending} webhooks to be sent`;
  for (const path of report.kept) yield `What was there is kept as ${path}`;
  if (report.settings) yield `The configuration of the backup is in ${report.settings}`;
  if (withoutJail.length === 0) return;
  const some = withoutJail.slice(0, 3).join(', ');
  yield `${withoutJail.length} directories have no files here yet (${some}${withoutJail.length > 3 ? ', …' : ''}): copy them into BERTH_JAIL_DIR BEFORE berth serve starts, with rsync -aH --numeric-ids, or they count as removed`;
}
