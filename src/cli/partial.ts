/** `berth partial`: files whose upload was cut off, or whose end berth missed. */
import { Command } from 'commander';
import { formatMicros } from '../foundation/base/clock.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { displayName } from '../arrivals/uploads/file-path.ts';
import { type PartialFile, partialFiles, reasonOf } from '../arrivals/files/partial.ts';
import { type Change, changeEach, deleteCommand, type Kind, listCommand } from './held-back.ts';
import type { Invocation } from './invocation.ts';
import type { RowStyle } from './rows.ts';

const HELP = `
A partial file is on the disk and counts in the storage of its directory, but is not an upload: its session was cut off, or
berth missed its end. When its client resumes and closes it, it becomes an upload.

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
    FILE: ({ path }) => displayName(path),
    WHY: reasonOf,
  },
  json: (file) => {
    const { id, account_id, directory_id, username, size_bytes, since } = file;
    const shown = { filename: displayName(file.path), size_bytes, since: formatMicros(since), reason: reasonOf(file) };
    return { id, account_id, directory_id, username, ...shown };
  },
};

const KIND: Kind<PartialFile> = { command: 'partial', api: 'partial', noun: 'partial file', find: partialFiles };

const LIST = { about: 'List partial files, newest first, and why each is partial', limit: 'how many to list' };

export function partialCommand(invocation: Invocation): Command {
  return new Command('partial')
    .description('Unfinished files: list, announce and delete them')
    .addHelpText('after', HELP)
    .addCommand(listCommand(KIND, LIST, STYLE, invocation))
    .addCommand(announceCommand(invocation))
    .addCommand(deleteCommand(KIND, 'Delete partial files for good', invocation));
}

function announceCommand(invocation: Invocation): Command {
  const change: Change = {
    method: 'POST',
    path: '/announce',
    done: (data) => (data?.state === 'checking' ? 'Sent to the check:' : 'Announced'),
  };
  return new Command('announce')
    .description('Turn partial files into uploads, listed and announced as if they had arrived now')
    .argument('<file...>', 'their ids, as berth partial list shows them')
    .addHelpText('after', '\nExample:\n  berth partial announce 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action((ids: readonly string[]) => changeEach(invocation, KIND, ids, change));
}
