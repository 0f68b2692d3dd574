/** `berth quarantine`: files that the checker has rejected, and uploads that are not announced yet. */
import { Command } from 'commander';
import { type HeldFile, heldFiles } from '../arrivals/checks/held.ts';
import { formatMicros } from '../foundation/base/clock.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { displayName } from '../arrivals/uploads/file-path.ts';
import { changeEach, deleteCommand, type Kind, listCommand } from './held-back.ts';
import type { Invocation } from './invocation.ts';
import type { RowStyle } from './rows.ts';

const HELP = `
With BERTH_SETTLE_SECONDS, an upload is "settling" until its name has not changed for that long. With BERTH_CHECK, it is then
"checking" until the checker has passed it. Only then is it announced. A "rejected" file is moved out of its directory, where its
customer cannot reach it, and deleted after BERTH_HISTORY_DAYS.

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

function kindOf({ config, clock }: Invocation): Kind<HeldFile> {
  return {
    command: 'quarantine',
    api: 'held',
    noun: 'file',
    find: (reads, filter) => heldFiles(reads, filter, { ...config(), now: clock.now() }),
  };
}

const LIST = {
  about: 'List rejected files, newest first, then uploads that are not announced yet, oldest first',
  limit: 'at most this many of each',
};

export function quarantineCommand(invocation: Invocation): Command {
  const kind = kindOf(invocation);
  return new Command('quarantine')
    .description('Files that were rejected, and uploads that settle or are checked: list, release and delete them')
    .addHelpText('after', HELP)
    .addCommand(listCommand(kind, LIST, STYLE, invocation))
    .addCommand(releaseCommand(kind, invocation))
    .addCommand(deleteCommand(kind, 'Delete files for good', invocation));
}

function releaseCommand(kind: Kind<HeldFile>, invocation: Invocation): Command {
  const change = { method: 'POST', path: '/release', done: () => 'Released' };
  return new Command('release')
    .description('Return files to their paths and announce them, whatever the checker says')
    .argument('<file...>', 'their ids, as berth quarantine list shows them')
    .addHelpText('after', '\nExample:\n  berth quarantine release 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action((ids: readonly string[]) => changeEach(invocation, kind, ids, change));
}
