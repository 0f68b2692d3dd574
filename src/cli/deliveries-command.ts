/** `berth deliveries`: webhooks, and sending one again. */
import { Command } from 'commander';
import { type DeliveryRow, listDeliveries } from '../reports/deliveries.ts';
import { replay } from '../webhooks/replay.ts';
import { filterOf, type FilterOptions, withFilters } from './filters.ts';
import { shownTime } from './output.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';
import type { DatabaseCommand } from './with-database.ts';

const HELP = `
States: queued (due), running, waiting (for a retry), delivered, failed (given up after four attempts).
--replay sends a finished one again, the same bytes to the same URL, as a new delivery; a running berth does so within
ten seconds.

Examples:
  berth deliveries --failed --since 1d
  berth deliveries --replay 3f0c6c1e-8e0b-4f5b-9a53-2f1f7f0c2d11
  for id in $(berth deliveries --failed --json | jq -r '.[].id'); do berth deliveries --replay "$id"; done`;

interface Announced {
  readonly filename?: string;
  readonly external_id?: string | null;
}

const STYLE: RowStyle<DeliveryRow> = {
  headings: ['ID', 'UPLOADED', 'STATE', 'ATTEMPTS', 'ANSWER', 'DESTINATION', 'FILE'],
  cells: (row) => [
    row.id,
    shownTime(row.inserted_at),
    row.state,
    row.attempts,
    row.status ?? row.error,
    originOf(row),
    announced(row).filename ?? '',
  ],
  json: (row) => ({
    id: row.id,
    directory_id: row.directory_id,
    external_id: announced(row).external_id ?? null,
    account_id: row.account_id,
    destination: originOf(row),
    filename: announced(row).filename,
    state: row.state,
    attempts: row.attempts,
    status: row.status,
    error: row.error,
    latency_ms: row.latency_us === null ? null : row.latency_us / 1000,
    inserted_at: fullTime(row.inserted_at),
    due_at: fullTime(row.due_at),
    finished_at: fullTime(row.finished_at),
  }),
};

interface Options extends FilterOptions {
  readonly failed?: true;
  readonly replay?: string;
}

export function deliveriesCommand({ withDatabase, clock, print }: DatabaseCommand): Command {
  return withFilters(new Command('deliveries').description('webhooks: what is to be sent, was sent or failed'))
    .option('--failed', 'only those that were given up')
    .option('--replay <id>', 'send this one again')
    .addHelpText('after', HELP)
    .action(async ({ replay: id, failed, ...options }: Options) => {
      if (id !== undefined) {
        const again = await withDatabase((database) => replay({ database, clock }, id));
        return print(options.json ? JSON.stringify({ id: again, replays: id }) : `${again} will be sent soon`);
      }
      const rows = await withDatabase(async (database) =>
        listDeliveries(database, { ...(await filterOf(database, clock, options)), failed }),
      );
      printRows(rows, STYLE, { print, as: options.json ? 'json' : 'table' });
    });
}

function announced({ body }: DeliveryRow): Announced {
  return JSON.parse(body.toString()) as Announced;
}

/** Paths and queries of webhook URLs often hold tokens. */
function originOf({ account_id, destination }: DeliveryRow): string {
  return destination.slice(account_id.length + 1);
}
