/** `berth quarantine`: files that the checker has rejected, and files that wait for it. */
import { Command } from 'commander';
import { type HeldFile, heldFiles } from '../arrivals/checks/held.ts';
import { formatMicros } from '../foundation/base/clock.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { displayName } from '../arrivals/uploads/file-path.ts';
import { changeEach, deleteCommand, type Kind, listCommand } from './held-back.ts';
import type { Invocation } from './invocation.ts';
import type { RowStyle } from './rows.ts';

const HELP = `
With BERTH_CHECK, an upload is announced once the checker has passed it; until then it is "checking". A "rejected" file is
moved out of its directory, where its customer cannot reach it, and deleted after BERTH_HISTORY_DAYS.

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

const KIND: Kind<HeldFile> = { command: 'quarantine', api: 'held', noun: 'file', find: heldFiles };

const LIST = {
  about: 'List rejected files, newest first, then files to be checked, oldest first',
  limit: 'at most this many of each',
};

export function quarantineCommand(invocation: Invocation): Command {
  return new Command('quarantine')
    .description('Files that the checker has rejected or has yet to check: list, release and delete them')
    .addHelpText('after', HELP)
    .addCommand(listCommand(KIND, LIST, STYLE, invocation))
    .addCommand(releaseCommand(invocation))
    .addCommand(deleteCommand(KIND, 'Delete files for good', invocation));
}

function releaseCommand(invocation: Invocation): Command {
  const change = { method: 'POST', path: '/release', done: () => 'Released' };
  return new Command('release')
    .description('Return files to their paths and announce them, whatever the checker says')
    .argument('<file...>', 'their ids, as berth quarantine list shows them')
    .addHelpText('after', '\nExample:\n  berth quarantine release 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action((ids: readonly string[]) => changeEach(invocation, KIND, ids, change));
}
