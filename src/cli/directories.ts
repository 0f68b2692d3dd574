/** `berth directories`. */
import { Command } from 'commander';
import { type DirectoryRow, listDirectories } from '../reports/queries.ts';
import { shortTime } from '../terminal.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
Newest first.

Examples:
  berth directories
  berth directories --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --limit 1000
  berth directories --directory acme-corp-x7k2m9qa --json`;

const STYLE: RowStyle<DirectoryRow> = {
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
    // The whole URL may hold a token.
    webhook_origin: webhook_url === null ? null : (URL.parse(webhook_url)?.origin ?? null),
    inserted_at: fullTime(inserted_at),
    updated_at: fullTime(updated_at),
  }),
};

export function directoriesCommand(invocation: Invocation): Command {
  return withFilters(new Command('directories').description('List the directories of this machine'), invocation.clock)
    .addHelpText('after', HELP)
    .action(async (options: FilterOptions) => {
      const rows = await narrowed(invocation, options, listDirectories);
      printRows(rows, STYLE, { print: invocation.print, json: options.json });
    });
}
