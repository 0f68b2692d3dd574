/** `berth transfers`: what SFTP clients did. */
import { Command, Option } from 'commander';
import { TRANSFER_EVENTS, type TransferEvent } from '../db/schema.ts';
import { lastTransfer, listTransfers, type TransferRow } from '../reports/transfers.ts';
import { filterOf, type FilterOptions, withFilters } from './filters.ts';
import { follow, type Stopped } from './follow.ts';
import { shownTime } from './output.ts';
import { columns, fullTime, printRows, type RowStyle } from './rows.ts';
import type { DatabaseCommand } from './with-database.ts';

const HELP = `
Who did what, from which address. "uploaded" is one for each webhook event; what was found on the disk has no address.
Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth transfers --since 1h
  berth transfers --directory acme-corp-x7k2m9qa --event upload-dropped
  berth transfers --follow --json`;

const STYLE: RowStyle<TransferRow> = {
  headings: ['TIME', 'EVENT', 'USERNAME', 'ADDRESS', 'BYTES', 'PATH'],
  cells: (row) => [
    shownTime(row.at),
    row.event,
    row.username,
    row.address,
    row.bytes,
    row.from_path === null ? row.path : `${row.from_path} -> ${row.path ?? ''}`,
  ],
  json: ({ id, at, began_at, from_path, ...row }) => ({
    id,
    at: fullTime(at),
    event: row.event,
    directory_id: row.directory_id,
    external_id: row.external_id,
    account_id: row.account_id,
    username: row.username,
    address: row.address,
    session_pid: row.session_pid,
    path: row.path,
    from: from_path,
    bytes: row.bytes,
    opened_at: fullTime(began_at),
  }),
};

interface Options extends FilterOptions {
  readonly event?: TransferEvent;
  readonly follow?: true;
}

export function transfersCommand(deps: DatabaseCommand & { stopped: Stopped }): Command {
  const { withDatabase, clock, print, stopped } = deps;
  return withFilters(new Command('transfers').description('uploads, downloads, renames, removals and sessions'))
    .addOption(new Option('--event <event>', 'only these').choices(TRANSFER_EVENTS))
    .option('--follow', 'go on with what happens from now on, until Ctrl-C')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { json, event } = options;
      const end = options.follow && stopped();
      await withDatabase(async (database) => {
        const filter = { ...(await filterOf(database, clock, options)), event };
        let after = options.follow ? await lastTransfer(database) : 0;
        const rows = await listTransfers(database, filter);
        if (!end) return printRows(rows, STYLE, { print, as: json ? 'json' : 'table' });
        const write = columns(print);
        if (!json) write([STYLE.headings]);
        const show = (shown: readonly TransferRow[]): void => {
          if (json) printRows(shown, STYLE, { print, as: 'lines' });
          else write(shown.map(STYLE.cells));
        };
        show(rows.filter(({ id }) => id <= after));
        await follow(end, async () => {
          const next = await listTransfers(database, { ...filter, after, limit: 1000 });
          show(next);
          after = next.at(-1)?.id ?? after;
        });
      });
    });
}
