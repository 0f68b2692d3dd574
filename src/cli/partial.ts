/** `berth partial`: files whose upload was cut off or whose end nobody saw. */
import { Command } from 'commander';
import { accountNamed } from '../accounts/accounts.ts';
import { formatMicros } from '../clock.ts';
import { OperatorError } from '../errors.ts';
import { directoriesNamed } from '../reports/named.ts';
import { escaped, shortTime } from '../terminal.ts';
import { displayName, pathOf } from '../uploads/file-path.ts';
import { type PartialFile, partialFiles, reasonOf } from '../uploads/partial.ts';
import { withDatabase } from './database.ts';
import { asking } from './directory/service.ts';
import { confirm, irrevocable } from './directory/which.ts';
import type { Invocation } from './invocation.ts';
import { integer } from './options.ts';
import { printRows, type RowStyle } from './rows.ts';

const HELP = `
A partial file is there and counts in the storage of its directory, but is no upload: the session that wrote it was cut
off, or nobody saw its upload end. When its client resumes and closes it, it becomes an upload.

Examples:
  berth partial list --directory acme-corp
  berth partial announce 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth partial delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes`;

const STYLE: RowStyle<PartialFile> = {
  columns: {
    ID: ({ id }) => id,
    USERNAME: ({ username }) => username,
    SINCE: ({ since }) => shortTime(since),
    BYTES: ({ size_bytes }) => size_bytes,
    FILE: nameOf,
    WHY: reasonOf,
  },
  json: (file) => {
    const { id, account_id, directory_id, username, size_bytes, since } = file;
    const shown = { filename: nameOf(file), size_bytes, since: formatMicros(since), reason: reasonOf(file) };
    return { id, account_id, directory_id, username, ...shown };
  },
};

interface ListOptions {
  readonly directory?: string;
  readonly account?: string;
  readonly limit: number;
  readonly json?: true;
}

interface ChangeOptions {
  readonly yes?: true;
}

export function partialCommand(invocation: Invocation): Command {
  return new Command('partial')
    .description('Files that were not finished: list, announce and delete them')
    .addHelpText('after', HELP)
    .addCommand(listCommand(invocation))
    .addCommand(announceCommand(invocation))
    .addCommand(deleteCommand(invocation));
}

function listCommand({ config, print }: Invocation): Command {
  return new Command('list')
    .description('List partial files, the newest first, and why each is partial')
    .option('--directory <directory>', 'only of this one, by its id, SFTP username, external id, slug or name')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--limit <count>', 'at most so many', integer(1, 999_999), 1000)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  berth partial list\n  berth partial list --directory acme-corp --json')
    .action(async ({ directory, account: name, limit, json }: ListOptions) => {
      const files = await withDatabase(config(), async (database) => {
        const account = name === undefined ? undefined : await accountNamed(database.reads, name);
        const named = directory === undefined ? undefined : await directoriesNamed(database, directory, account);
        if (named?.length === 0) {
          throw new OperatorError(`there is no directory ${JSON.stringify(directory)}: see berth directory list`);
        }
        const directories = named?.map(({ id }) => id);
        return partialFiles(database.reads, { directories, account, limit });
      });
      printRows(files, STYLE, { print, json });
    });
}

function announceCommand(invocation: Invocation): Command {
  return new Command('announce')
    .description('Make partial files uploads: listed, and announced by a webhook, as if they had arrived now')
    .argument('<file...>', 'their ids, as berth partial list shows them')
    .addHelpText('after', '\nExample:\n  berth partial announce 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action((ids: readonly string[]) => changeEach(invocation, ids, 'Announced', 'POST', '/announce'));
}

function deleteCommand(invocation: Invocation): Command {
  return irrevocable(new Command('delete').description('Delete partial files for good'))
    .argument('<file...>', 'their ids, as berth partial list shows them')
    .addHelpText('after', '\nExample:\n  berth partial delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes')
    .action(async (ids: readonly string[], options: ChangeOptions) => {
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
    partialFiles(reads, { files: ids, limit: ids.length }),
  );
  const failures: string[] = [];
  for (const id of ids) {
    const file = files.find((each) => each.id === id);
    try {
      if (!file) throw new OperatorError('there is no such partial file: see berth partial list');
      const ask = asking(invocation, file.account_id);
      const { data } = await ask<{ readonly state?: string } | null>(
        method,
        `/directories/${file.directory_id}/partial/${id}${path}`,
      );
      const shown = data?.state === 'checking' ? 'Sent to the check:' : done;
      invocation.print(escaped(`${shown} ${nameOf(file)} (${file.size_bytes} bytes) of ${file.username}`));
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      failures.push(`${id}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new OperatorError(escaped(failures.join('; ')));
}

function nameOf({ path }: PartialFile): string {
  return displayName(pathOf(path));
}
