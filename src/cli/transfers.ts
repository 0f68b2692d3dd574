/** `berth transfers`: lists what SFTP clients did. */
import { Command, Option } from 'commander';
import { TRANSFER_EVENTS, type TransferEvent } from '../foundation/db/schema.ts';
import { refusalIn } from '../rules/history/refusals.ts';
import { lastTransfer, listTransfers, type TransferRow } from '../operating/reports/queries.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { followRows, fullTime, printRows, type RowStyle } from './rows.ts';

/** How many rows `--follow` reads at once. */
const BATCH_ROWS = 1000;

const HELP = `
Shows each event with its user and address. There is one "uploaded" for each webhook; files that were found on the disk have
no address. Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth transfers --since 1h
  berth transfers --directory acme-corp-x7k2m9qa --event upload-dropped
  berth transfers --follow --json`;

const STYLE: RowStyle<TransferRow> = {
  columns: {
    TIME: (row) => shortTime(row.at),
    EVENT: (row) => row.event,
    USERNAME: (row) => row.username,
    ADDRESS: (row) => row.address,
    BYTES: (row) => row.bytes,
    PATH: (row) => (row.from_path === null ? row.path : `${row.from_path} -> ${row.path ?? ''}`),
  },
  json: ({ at, from_path, began_at, reason, ...row }) => ({
    ...row,
    reason,
    ...(row.event === 'refused' && { reason: null, refusal: refusalIn(reason) ?? reason }),
    at: fullTime(at),
    from: from_path,
    opened_at: fullTime(began_at),
  }),
};

interface Options extends FilterOptions {
  readonly event?: TransferEvent;
  readonly follow?: true;
}

export function transfersCommand(invocation: Invocation): Command {
  const { print } = invocation;
  return withFilters(
    new Command('transfers').description('List uploads, downloads, renames, removals, refused requests and sessions'),
    invocation.clock,
  )
    .addOption(new Option('--event <event>', 'only these').choices(TRANSFER_EVENTS))
    .option('--follow', 'keep printing new entries, until Ctrl-C')
    .addHelpText('after', HELP)
    .action(async ({ event, follow, ...options }: Options) => {
      const { json } = options;
      const stop = follow && invocation.catchSignals();
      await narrowed(invocation, options, async (database, filter) => {
        let after = await lastTransfer(database);
        const rows = await listTransfers(database, { ...filter, event });
        if (!stop) return printRows(rows, STYLE, { print, json });
        const first = rows.filter(({ id }) => id <= after);
        const next = async (): Promise<TransferRow[]> => {
          const more = await listTransfers(database, { ...filter, event, after, limit: BATCH_ROWS });
          after = more.at(-1)?.id ?? after;
          return more;
        };
        await followRows(first, next, STYLE, { print, json, stop });
      });
    });
}
