/** `berth deliveries`: lists webhooks, and sends one again. */
import { Command } from 'commander';
import { type DeliveryRow, listDeliveries } from '../operating/reports/queries.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { replay } from '../deliveries/webhooks/replay.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
States: queued (due), running, waiting (for a retry), delivered, failed (given up after four attempts).
--replay sends a finished webhook again as a new delivery: the same bytes, to the directory's present URL, signed with its
present secret. A running berth sends it within ten seconds.

Examples:
  berth deliveries --failed --since 1d
  berth deliveries --replay 3f0c6c1e-8e0b-4f5b-9a53-2f1f7f0c2d11
  for id in $(berth deliveries --failed --json | jq -r '.[].id'); do berth deliveries --replay "$id"; done`;

const STYLE: RowStyle<DeliveryRow> = {
  columns: {
    ID: (row) => row.id,
    UPLOADED: (row) => shortTime(row.inserted_at),
    STATE: (row) => row.state,
    ATTEMPTS: (row) => row.attempts,
    ANSWER: (row) => row.status ?? row.error,
    DESTINATION: originOf,
    FILE: (row) => webhookOf(row).filename ?? null,
  },
  json: (row) => ({
    id: row.id,
    directory_id: row.directory_id,
    external_id: webhookOf(row).external_id ?? null,
    account_id: row.account_id,
    destination: originOf(row),
    filename: webhookOf(row).filename,
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

export function deliveriesCommand(invocation: Invocation): Command {
  const { print } = invocation;
  return withFilters(new Command('deliveries').description('List webhooks: pending, sent or failed'), invocation.clock)
    .option('--failed', 'only failed ones')
    .option('--replay <id>', 'send this one again')
    .addHelpText('after', HELP)
    .action(async ({ replay: id, failed, ...options }: Options) => {
      const { json } = options;
      if (id !== undefined) {
        const again = await replayById(invocation, id);
        return print(json ? JSON.stringify({ id: again, replays: id }) : `${again} will be sent soon`);
      }
      const rows = await narrowed(invocation, options, (database, filter) =>
        listDeliveries(database, { ...filter, failed }),
      );
      printRows(rows, STYLE, { print, json });
    });
}

/** Replays by the API's rule, for the account that owns the delivery. */
async function replayById({ config, clock }: Invocation, id: string): Promise<string> {
  return withDatabase(config(), async (database) => {
    const owner = await database.db
      .selectFrom('deliveries')
      .select(['directory_id', 'account_id'])
      .where('id', '=', id)
      .executeTakeFirst();
    if (!owner) throw new OperatorError(`there is no delivery ${JSON.stringify(id)}: see berth deliveries`);
    const target = { accountId: owner.account_id, id: owner.directory_id };
    const again = await sayingRefusals(() => replay({ database, clock, wake: () => undefined }, target, id));
    return again.id;
  });
}

function webhookOf({ body }: DeliveryRow): { readonly filename?: string; readonly external_id?: string | null } {
  return JSON.parse(body.toString()) as ReturnType<typeof webhookOf>;
}

/** The origin alone: paths and queries of webhook URLs often hold tokens. */
function originOf({ account_id, destination }: DeliveryRow): string {
  return destination.slice(account_id.length + 1);
}
