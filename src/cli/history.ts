/** `berth transfers`, `berth deliveries` and `berth audit`: the lists of what has happened. */
import { Command, Option } from 'commander';
import { TRANSFER_EVENTS, type TransferEvent } from '../foundation/db/schema.ts';
import { refusalIn } from '../rules/history/refusals.ts';
import {
  type AuditRow,
  lastTransfer,
  listAudit,
  listTransfers,
  type TransferRow,
} from '../operating/reports/queries.ts';
import { shortTime } from '../foundation/base/text.ts';
import { type FilterOptions, narrowed, withFilters } from './options.ts';
import type { Invocation } from './invocation.ts';
import { followRows, fullTime, printRows, type RowStyle } from './rows.ts';
import { newestDeliveries } from '../deliveries/webhooks/delivery-list.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { replay } from '../deliveries/webhooks/replay.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import { changesOf } from '../rules/history/sentences.ts';

// `berth transfers`: lists what SFTP clients did.

/** How many rows `--follow` reads at once. */
const BATCH_ROWS = 1000;

const TRANSFERS_HELP = `
Shows each event with its user and address. There is one "uploaded" for each webhook; files that were found on the disk have
no address. Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth transfers --since 1h
  berth transfers --directory acme-corp-x7k2m9qa --event upload-dropped
  berth transfers --follow --json`;

const TRANSFERS_STYLE: RowStyle<TransferRow> = {
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

interface TransfersOptions extends FilterOptions {
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
    .addHelpText('after', TRANSFERS_HELP)
    .action(async ({ event, follow, ...options }: TransfersOptions) => {
      const { json } = options;
      const stop = follow && invocation.catchSignals();
      await narrowed(invocation, options, async (database, filter) => {
        let after = await lastTransfer(database);
        const rows = await listTransfers(database, { ...filter, event });
        if (!stop) return printRows(rows, TRANSFERS_STYLE, { print, json });
        const first = rows.filter(({ id }) => id <= after);
        const next = async (): Promise<TransferRow[]> => {
          const more = await listTransfers(database, { ...filter, event, after, limit: BATCH_ROWS });
          after = more.at(-1)?.id ?? after;
          return more;
        };
        await followRows(first, next, TRANSFERS_STYLE, { print, json, stop });
      });
    });
}

// `berth deliveries`: lists webhooks, and sends one again.

const DELIVERIES_HELP = `
States: queued (due), running, waiting (for a retry), delivered, failed (given up after four attempts).
--replay sends a finished webhook again as a new delivery: the same bytes, to the directory's present URL, signed with its
present secret. A running berth sends it within ten seconds.

Examples:
  berth deliveries --failed --since 1d
  berth deliveries --replay 3f0c6c1e-8e0b-4f5b-9a53-2f1f7f0c2d11
  for id in $(berth deliveries --failed --json | jq -r '.[].id'); do berth deliveries --replay "$id"; done`;

type DeliveryRow = Awaited<ReturnType<typeof newestDeliveries>>[number];

const DELIVERIES_STYLE: RowStyle<DeliveryRow> = {
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

interface DeliveriesOptions extends FilterOptions {
  readonly failed?: true;
  readonly replay?: string;
}

export function deliveriesCommand(invocation: Invocation): Command {
  const { print } = invocation;
  return withFilters(new Command('deliveries').description('List webhooks: pending, sent or failed'), invocation.clock)
    .option('--failed', 'only failed ones')
    .option('--replay <id>', 'send this one again')
    .addHelpText('after', DELIVERIES_HELP)
    .action(async ({ replay: id, failed, ...options }: DeliveriesOptions) => {
      const { json } = options;
      if (id !== undefined) {
        const again = await replayById(invocation, id);
        return print(json ? JSON.stringify({ id: again, replays: id }) : `${again} will be sent soon`);
      }
      const state = failed && 'failed';
      const rows = await narrowed(invocation, options, ({ reads }, { limit, ...filter }) =>
        newestDeliveries(reads, { ...filter, state }, limit),
      );
      printRows(rows.toReversed(), DELIVERIES_STYLE, { print, json });
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

// `berth audit`: lists changes made through the API.

const AUDIT_HELP = `
Shows the key of each change, or operator:NAME for berth directory, and the request (its x-request-id). Values are shown
only for harmless fields, and only the origin of a webhook URL. Rows are kept for BERTH_HISTORY_DAYS.

Examples:
  berth audit --since 7d
  berth audit --directory acme-corp-x7k2m9qa --json
  berth audit --key 5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e`;

const AUDIT_STYLE: RowStyle<AuditRow> = {
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

interface AuditOptions extends FilterOptions {
  readonly key?: string;
}

export function auditCommand(invocation: Invocation): Command {
  return withFilters(new Command('audit').description('List changes made through the API'), invocation.clock)
    .option('--key <id>', 'only changes made with this key')
    .addHelpText('after', AUDIT_HELP)
    .action(async ({ key, ...options }: AuditOptions) => {
      const rows = await narrowed(invocation, options, (database, filter) => listAudit(database, { ...filter, key }));
      printRows(rows, AUDIT_STYLE, { print: invocation.print, json: options.json });
    });
}
