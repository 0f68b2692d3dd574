/** `berth quarantine`: files that the checker rejected, and those that wait for it. */
import { Command } from 'commander';
import { accountNamed } from '../accounts/accounts.ts';
import { type HeldFile, heldFiles } from '../checks/held.ts';
import { formatMicros } from '../clock.ts';
import { OperatorError } from '../errors.ts';
import { directoriesNamed } from '../reports/named.ts';
import { escaped, shortTime } from '../terminal.ts';
import { displayName } from '../uploads/file-path.ts';
import { withDatabase } from './database.ts';
import { asking } from './directory/service.ts';
import { confirm, irrevocable } from './directory/which.ts';
import type { Invocation } from './invocation.ts';
import { integer } from './options.ts';
import { printRows, type RowStyle } from './rows.ts';

const HELP = `
With BERTH_CHECK an upload is announced once the checker has passed it. Until then it is "checking". A "rejected" file is out of
its directory, where its customer cannot reach it, and goes after BERTH_HISTORY_DAYS.

Examples:
  berth quarantine list --directory acme-corp
  berth quarantine release 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth quarantine delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes`;

const STYLE: RowStyle<HeldFile> = {
  columns: {
    ID: ({ id }) => id,
    USERNAME: ({ username }) => username,
    STATE: ({ state }) => state,
    SINCE: ({ since }) => shortTime(since),
    BYTES: ({ size_bytes }) => size_bytes,
    FILE: ({ path }) => displayName(path),
    WHY: ({ reason }) => reason,
  },
  json: ({ path, since, ...file }) => ({ ...file, filename: displayName(path), since: formatMicros(since) }),
};

interface ListOptions {
  readonly directory?: string;
  readonly account?: string;
  readonly limit: number;
  readonly json?: true;
}

export function quarantineCommand(invocation: Invocation): Command {
  return new Command('quarantine')
    .description('Files that the checker rejected or is to check: list, release and delete them')
    .addHelpText('after', HELP)
    .addCommand(listCommand(invocation))
    .addCommand(releaseCommand(invocation))
    .addCommand(deleteCommand(invocation));
}

function listCommand({ config, print }: Invocation): Command {
  return new Command('list')
    .description('List the rejected files, the newest first, then those to be checked, the oldest first')
    .option('--directory <directory>', 'only of this one, by its id, SFTP username, external id, slug or name')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--limit <count>', 'at most this many of each', integer(1, 999_999), 1000)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  berth quarantine list\n  berth quarantine list --directory acme-corp --json')
    .action(async ({ directory, account: name, limit, json }: ListOptions) => {
      const files = await withDatabase(config(), async (database) => {
        const account = name === undefined ? undefined : await accountNamed(database.reads, name);
        const named = directory === undefined ? undefined : await directoriesNamed(database, directory, account);
        if (named?.length === 0) {
          throw new OperatorError(`there is no directory ${JSON.stringify(directory)}: see berth directory list`);
        }
        return heldFiles(database.reads, { directories: named?.map(({ id }) => id), account, limit });
      });
      printRows(files, STYLE, { print, json });
    });
}

function releaseCommand(invocation: Invocation): Command {
  return new Command('release')
    .description('Announce files, back at their paths, whatever the checker says')
    .argument('<file...>', 'their ids, as berth quarantine list shows them')
    .addHelpText('after', '\nExample:\n  berth quarantine release 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action((ids: readonly string[]) => changeEach(invocation, ids, 'Released', 'POST', '/release'));
}

function deleteCommand(invocation: Invocation): Command {
  return irrevocable(new Command('delete').description('Delete files for good'))
    .argument('<file...>', 'their ids, as berth quarantine list shows them')
    .addHelpText('after', '\nExample:\n  berth quarantine delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes')
    .action(async (ids: readonly string[], options: { readonly yes?: true }) => {
      await confirm(invocation, options, `Delete ${ids.length === 1 ? 'this file' : `${ids.length} files`} for good?`);
      await changeEach(invocation, ids, 'Deleted', 'DELETE', '');
    });
}

/** One that is refused does not keep the others. @throws {OperatorError} when there was one. */
async function changeEach(
  invocation: Invocation,
  ids: readonly string[],
  done: string,
  method: string,
  path: string,
): Promise<void> {
  const files = await withDatabase(invocation.config(), ({ reads }) =>
    heldFiles(reads, { files: ids, limit: ids.length }),
  );
  const failures: string[] = [];
  for (const id of ids) {
    const file = files.find((each) => each.id === id);
    try {
      if (!file) throw new OperatorError('there is no such file: see berth quarantine list');
      const ask = asking(invocation, file.account_id);
      await ask(method, `/directories/${file.directory_id}/held/${id}${path}`);
      invocation.print(escaped(`${done} ${displayName(file.path)} (${file.size_bytes} bytes) of ${file.username}`));
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      failures.push(`${id}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new OperatorError(escaped(failures.join('; ')));
}
