/** `berth directories`. */
import { Command } from 'commander';
import { type DirectoryRow, listDirectories } from '../reports/directories.ts';
import { filterOf, type FilterOptions, withFilters } from './filters.ts';
import { shownTime } from './output.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';
import type { DatabaseCommand } from './with-database.ts';

const HELP = `
Newest first.

Examples:
  berth directories
  berth directories --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --limit 1000
  berth directories --directory acme-corp-x7k2m9qa --json`;

const STYLE: RowStyle<DirectoryRow> = {
  headings: ['ID', 'USERNAME', 'MODE', 'BYTES', 'CREATED', 'EXTERNAL ID', 'NAME'],
  cells: (row) => [
    row.id,
    row.sftp_username,
    row.auth_mode,
    row.storage_bytes,
    shownTime(row.inserted_at),
    row.external_id,
    row.name,
  ],
  json: ({ webhook_url, inserted_at, updated_at, ...row }) => ({
    ...row,
    // The whole URL may hold a token.
    webhook_origin: webhook_url === null ? null : (URL.parse(webhook_url)?.origin ?? null),
    inserted_at: fullTime(inserted_at),
    updated_at: fullTime(updated_at),
  }),
};

export function directoriesCommand({ withDatabase, clock, print }: DatabaseCommand): Command {
  return withFilters(new Command('directories').description('all directories of this machine'))
    .addHelpText('after', HELP)
    .action(async (options: FilterOptions) => {
      const rows = await withDatabase(async (database) =>
        listDirectories(database, await filterOf(database, clock, options)),
      );
      printRows(rows, STYLE, { print, as: options.json ? 'json' : 'table' });
    });
}
