/** `berth directory list` and `berth directories`: read the database, whether or not berth runs. */
import { Command } from 'commander';
import { newestDirectories, type ReportedDirectory } from '../rules/directories/view.ts';
import { shortTime } from '../foundation/base/text.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const help = (command: string): string => `
Newest first.

Examples:
  berth ${command}
  berth ${command} --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --limit 1000
  berth ${command} --directory acme-corp-x7k2m9qa --json`;

const STYLE: RowStyle<ReportedDirectory> = {
  columns: {
    ID: (row) => row.id,
    USERNAME: (row) => row.sftp_username,
    MODE: (row) => row.auth_mode,
    BYTES: (row) => row.storage_bytes,
    CREATED: (row) => shortTime(row.inserted_at),
    'EXTERNAL ID': (row) => row.external_id,
    NAME: (row) => row.name,
  },
  json: ({ webhook_url, inserted_at, updated_at, ...row }) => ({
    ...row,
    // The rest of the URL may hold a token.
    webhook_origin: webhook_url === null ? null : (URL.parse(webhook_url)?.origin ?? null),
    inserted_at: fullTime(inserted_at),
    updated_at: fullTime(updated_at),
  }),
};

export function directoriesCommand(invocation: Invocation, name: 'directories' | 'list' = 'directories'): Command {
  return withFilters(new Command(name).description('List the directories of this machine'), invocation.clock)
    .addHelpText('after', help(name === 'list' ? 'directory list' : name))
    .action(async (options: FilterOptions) => {
      const rows = await narrowed(invocation, options, ({ reads }, filter) => newestDirectories(reads, filter));
      printRows(rows, STYLE, { print: invocation.print, json: options.json });
    });
}
