/** `berth audit`: lists changes made through the API. */
import { Command } from 'commander';
import { changesOf } from '../rules/history/sentences.ts';
import { type AuditRow, listAudit } from '../operating/reports/queries.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
Shows the key of each change, or operator:NAME for berth directory, and the request (its x-request-id). Values are shown
only for harmless fields, and only the origin of a webhook URL. Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth audit --since 7d
  berth audit --directory acme-corp-x7k2m9qa --json
  berth audit --key 5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e`;

const STYLE: RowStyle<AuditRow> = {
  columns: {
    TIME: (row) => shortTime(row.at),
    ACTION: (row) => row.action,
    USERNAME: (row) => row.username,
    KEY: (row) => row.key_name ?? row.key_id,
    REQUEST: (row) => row.request_id,
    CHANGES: changesInWords,
  },
  json: ({ at, changes, ...row }) => ({ ...row, at: fullTime(at), changes: changesOf({ changes }) }),
};

/** The changed fields with their values before and after, if those may be shown. */
function changesInWords(row: AuditRow): string {
  const fields = Object.entries(changesOf(row)).map(([field, { from, to }]) => {
    if (to === undefined) return field;
    // This names the object of the change, and did not change itself.
    if (from === to) return `${field} ${JSON.stringify(to)}`;
    return `${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`;
  });
  return fields.join(', ');
}

interface Options extends FilterOptions {
  readonly key?: string;
}

export function auditCommand(invocation: Invocation): Command {
  return withFilters(new Command('audit').description('List changes made through the API'), invocation.clock)
    .option('--key <id>', 'only changes made with this key')
    .addHelpText('after', HELP)
    .action(async ({ key, ...options }: Options) => {
      const rows = await narrowed(invocation, options, (database, filter) => listAudit(database, { ...filter, key }));
      printRows(rows, STYLE, { print: invocation.print, json: options.json });
    });
}
