/** `berth partial` and `berth quarantine`: both list files that are held back, and change them through the API. */
import { Command } from 'commander';
import type { Kysely } from 'kysely';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { escaped, shortTime } from '../foundation/base/text.ts';
import type { Tables } from '../foundation/db/schema.ts';
import { type PartialFile, partialFiles, type PartialFilter, reasonOf } from '../arrivals/files/partial.ts';
import { directoriesNamed } from '../operating/reports/named.ts';
import { displayName } from '../arrivals/uploads/file-path.ts';
import { withDatabase } from './database.ts';
import { asking } from './directory/service.ts';
import { confirm, irrevocable } from './directory/named-directory.ts';
import type { Invocation } from './invocation.ts';
import { integer } from './options.ts';
import { printRows, type RowStyle } from './rows.ts';
import { formatMicros } from '../foundation/base/clock.ts';
import { type HeldFile, heldFiles } from '../arrivals/checks/held.ts';

interface HeldBack {
  readonly id: string;
  readonly account_id: string;
  readonly directory_id: string;
  readonly username: string;
  readonly path: Buffer;
  readonly size_bytes: number;
}

interface Kind<F extends HeldBack> {
  /** The command's name, such as `partial`. */
  readonly command: string;
  /** The path of such files in the API, below their directory. */
  readonly api: string;
  /** What messages call one of them. */
  readonly noun: string;
  readonly find: (reads: Kysely<Tables>, filter: PartialFilter) => Promise<F[]>;
}

interface ListOptions {
  readonly directory?: string;
  readonly account?: string;
  readonly limit: number;
  readonly json?: true;
}

/** @param texts the descriptions of the command and of `--limit`. */
function listCommand<F extends HeldBack>(
  { command, find }: Kind<F>,
  texts: { readonly about: string; readonly limit: string },
  style: RowStyle<F>,
  { config, print }: Invocation,
): Command {
  return new Command('list')
    .description(texts.about)
    .option('--directory <directory>', 'only of this one, by its id, SFTP username, external id, slug or name')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--limit <count>', texts.limit, integer(1, 999_999), 1000)
    .option('--json', 'print JSON')
    .addHelpText('after', `\nExamples:\n  berth ${command} list\n  berth ${command} list --directory acme-corp --json`)
    .action(async ({ directory, account: name, limit, json }: ListOptions) => {
      const files = await withDatabase(config(), async (database) => {
        const account = name === undefined ? undefined : await accountNamed(database.reads, name);
        const named = directory === undefined ? undefined : await directoriesNamed(database, directory, account);
        if (named?.length === 0) {
          throw new OperatorError(`there is no directory ${JSON.stringify(directory)}: see berth directory list`);
        }
        return find(database.reads, { directories: named?.map(({ id }) => id), account, limit });
      });
      printRows(files, style, { print, json });
    });
}

function deleteCommand<F extends HeldBack>(kind: Kind<F>, about: string, invocation: Invocation): Command {
  return irrevocable(new Command('delete').description(about))
    .argument('<file...>', `their ids, as berth ${kind.command} list shows them`)
    .addHelpText('after', `\nExample:\n  berth ${kind.command} delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes`)
    .action(async (ids: readonly string[], options: { readonly yes?: true }) => {
      await confirm(invocation, options, `Delete ${ids.length === 1 ? 'this file' : `${ids.length} files`} for good?`);
      await changeEach(invocation, kind, ids, { method: 'DELETE', path: '', done: () => 'Deleted' });
    });
}

interface Change {
  readonly method: string;
  /** Below the file's own path. */
  readonly path: string;
  /** The first words of the message, from the answer's data. */
  readonly done: (data: { readonly state?: string } | null) => string;
}

/** Continues after a refusal. @throws {OperatorError} at the end if any was refused. */
async function changeEach<F extends HeldBack>(
  invocation: Invocation,
  { command, api, noun, find }: Kind<F>,
  ids: readonly string[],
  { method, path, done }: Change,
): Promise<void> {
  const files = await withDatabase(invocation.config(), ({ reads }) => find(reads, { files: ids, limit: ids.length }));
  const failures: string[] = [];
  for (const id of ids) {
    const file = files.find((each) => each.id === id);
    try {
      if (!file) throw new OperatorError(`there is no such ${noun}: see berth ${command} list`);
      const ask = asking(invocation, file.account_id);
      const { data } = await ask<{ readonly state?: string } | null>(
        method,
        `/directories/${file.directory_id}/${api}/${id}${path}`,
      );
      invocation.print(
        escaped(`${done(data)} ${displayName(file.path)} (${file.size_bytes} bytes) of ${file.username}`),
      );
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      failures.push(`${id}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new OperatorError(escaped(failures.join('; ')));
}

interface ChangingTexts {
  readonly name: string;
  readonly about: string;
}

/** A command that asks the API for the same change of each file. */
function changingCommand<F extends HeldBack>(
  kind: Kind<F>,
  { name, about }: ChangingTexts,
  change: Change,
  invocation: Invocation,
): Command {
  return new Command(name)
    .description(about)
    .argument('<file...>', `their ids, as berth ${kind.command} list shows them`)
    .addHelpText('after', `\nExample:\n  berth ${kind.command} ${name} 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10`)
    .action((ids: readonly string[]) => changeEach(invocation, kind, ids, change));
}

const PARTIAL_HELP = `
A partial file is on the disk and counts in the storage of its directory, but is not an upload: its session was cut off, or
berth missed its end. When its client resumes and closes it, it becomes an upload.

Examples:
  berth partial list --directory acme-corp
  berth partial announce 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth partial delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes`;

const PARTIAL_STYLE: RowStyle<PartialFile> = {
  columns: {
    ID: ({ id }) => id,
    USERNAME: ({ username }) => username,
    SINCE: ({ since }) => shortTime(since),
    BYTES: ({ size_bytes }) => size_bytes,
    FILE: ({ path }) => displayName(path),
    WHY: reasonOf,
  },
  json: (file) => {
    const { id, account_id, directory_id, username, size_bytes, since } = file;
    const shown = { filename: displayName(file.path), size_bytes, since: formatMicros(since), reason: reasonOf(file) };
    return { id, account_id, directory_id, username, ...shown };
  },
};

const PARTIAL_KIND: Kind<PartialFile> = {
  command: 'partial',
  api: 'partial',
  noun: 'partial file',
  find: partialFiles,
};

const PARTIAL_LIST = { about: 'List partial files, newest first, and why each is partial', limit: 'how many to list' };

const ANNOUNCE = {
  name: 'announce',
  about: 'Turn partial files into uploads, listed and announced as if they had arrived now',
};

const ANNOUNCING: Change = {
  method: 'POST',
  path: '/announce',
  done: (data) => (data?.state === 'checking' ? 'Sent to the check:' : 'Announced'),
};

export function partialCommand(invocation: Invocation): Command {
  return new Command('partial')
    .description('Unfinished files: list, announce and delete them')
    .addHelpText('after', PARTIAL_HELP)
    .addCommand(listCommand(PARTIAL_KIND, PARTIAL_LIST, PARTIAL_STYLE, invocation))
    .addCommand(changingCommand(PARTIAL_KIND, ANNOUNCE, ANNOUNCING, invocation))
    .addCommand(deleteCommand(PARTIAL_KIND, 'Delete partial files for good', invocation));
}

const QUARANTINE_HELP = `
With BERTH_SETTLE_SECONDS, an upload is "settling" until its name has not changed for that long. With BERTH_CHECK, it is then
"checking" until the checker has passed it. Only then is it announced. A "rejected" file is moved out of its directory, where its
customer cannot reach it, and deleted after BERTH_HISTORY_DAYS.

Examples:
  berth quarantine list --directory acme-corp
  berth quarantine release 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth quarantine delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes`;

const QUARANTINE_STYLE: RowStyle<HeldFile> = {
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

function kindOf({ config, clock }: Invocation): Kind<HeldFile> {
  return {
    command: 'quarantine',
    api: 'held',
    noun: 'file',
    find: (reads, filter) => heldFiles(reads, filter, { ...config(), now: clock.now() }),
  };
}

const QUARANTINE_LIST = {
  about: 'List rejected files, newest first, then uploads that are not announced yet, oldest first',
  limit: 'at most this many of each',
};

const RELEASE = {
  name: 'release',
  about: 'Return files to their paths and announce them, whatever the checker says',
};

const RELEASING: Change = { method: 'POST', path: '/release', done: () => 'Released' };

export function quarantineCommand(invocation: Invocation): Command {
  const kind = kindOf(invocation);
  return new Command('quarantine')
    .description('Files that were rejected, and uploads that settle or are checked: list, release and delete them')
    .addHelpText('after', QUARANTINE_HELP)
    .addCommand(listCommand(kind, QUARANTINE_LIST, QUARANTINE_STYLE, invocation))
    .addCommand(changingCommand(kind, RELEASE, RELEASING, invocation))
    .addCommand(deleteCommand(kind, 'Delete files for good', invocation));
}
