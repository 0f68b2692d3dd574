/** `berth audit`: what was changed through the API. */
import { Command } from 'commander';
import { type AuditRow, listAudit } from '../reports/audit.ts';
import { filterOf, type FilterOptions, withFilters } from './filters.ts';
import { shownTime } from './output.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';
import type { DatabaseCommand } from './with-database.ts';

const HELP = `
Which key changed what, by which request (its x-request-id). Values are shown of harmless fields only, and of a webhook
URL only its origin. Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth audit --since 7d
  berth audit --directory acme-corp-x7k2m9qa --json
  berth audit --key 5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e`;

type Differences = Record<string, { readonly from?: unknown; readonly to?: unknown }>;

const STYLE: RowStyle<AuditRow> = {
  headings: ['TIME', 'ACTION', 'USERNAME', 'KEY', 'REQUEST', 'CHANGES'],
  cells: (row) => [
    shownTime(row.at),
    row.action,
    row.username,
    row.key_name ?? row.key_id,
    row.request_id,
    inWords(JSON.parse(row.changes) as Differences),
  ],
  json: ({ at, changes, ...row }) => ({ ...row, at: fullTime(at), changes: JSON.parse(changes) as unknown }),
};

interface Options extends FilterOptions {
  readonly key?: string;
}

export function auditCommand({ withDatabase, clock, print }: DatabaseCommand): Command {
  return withFilters(new Command('audit').description('changes made through the API'))
    .option('--key <id>', 'only those made with this key')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const rows = await withDatabase(async (database) =>
        listAudit(database, { ...(await filterOf(database, clock, options)), key: options.key }),
      );
      printRows(rows, STYLE, { print, as: options.json ? 'json' : 'table' });
    });
}

function inWords(changes: Differences): string {
  return Object.entries(changes)
    .map(([field, { from, to }]) =>
      to === undefined ? field : `${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`,
    )
    .join(', ');
}
