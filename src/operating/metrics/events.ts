/** Counts events: API requests, the actions of SFTP clients, webhook attempts. */
import { TRANSFER_EVENTS } from '../../foundation/db/schema.ts';
import { counter, histogram, type Registry, scraped } from './registry.ts';
import { sql } from 'kysely';
import { SECOND } from '../../foundation/base/clock.ts';
import type { Ground } from '../../foundation/context.ts';

export interface ObservedRequest {
  readonly method: string;
  /** The path's pattern; undefined when no endpoint matches. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export interface ObservedTransfer {
  readonly event: string;
  readonly bytes?: number | null | undefined;
}

export interface ObservedAttempt {
  /** `retry`: failed, and will be repeated. `handed-back`: cut off by a stop, and will be repeated at once. */
  readonly outcome: (typeof OUTCOMES)[number];
  /** From the close of the upload's handle to the end of this attempt, in µs. */
  readonly sinceClose: number;
}

const OUTCOMES = ['delivered', 'retry', 'failed', 'handed-back'] as const;

export function requestMetrics(registry: Registry): (request: ObservedRequest) => void {
  const requests = counter(registry, { name: 'berth_http_requests_total', help: 'API requests answered.' });
  const help = 'The total time until answers to API requests were ready.';
  const seconds = counter(registry, { name: 'berth_http_request_seconds_total', help });
  return ({ method, route = 'none', status, ms }) => {
    requests(1, { method, route, status });
    seconds(ms / 1000, { method, route, status });
  };
}

/** Counts the transfers in the history. */
export function transferMetrics(registry: Registry): (transfers: readonly ObservedTransfer[]) => void {
  const help = 'Events of SFTP sessions by kind; `uploaded` counts one for each webhook.';
  const known = TRANSFER_EVENTS.map((event) => ({ event }));
  const events = counter(registry, { name: 'berth_transfers_total', help }, known);
  const up = { name: 'berth_uploaded_bytes_total', help: 'Total size of uploaded files.' };
  const uploaded = counter(registry, up, [{}]);
  const down = { name: 'berth_downloaded_bytes_total', help: 'Total bytes read by downloads.' };
  const downloaded = counter(registry, down, [{}]);
  return (transfers) => {
    for (const { event, bytes } of transfers) {
      events(1, { event });
      if (event === 'uploaded') uploaded(bytes ?? 0);
      else if (event === 'downloaded') downloaded(bytes ?? 0);
    }
  };
}

export function attemptMetrics(registry: Registry): (attempt: ObservedAttempt) => void {
  const help = 'Webhook attempts by outcome; `failed` is the last attempt of a delivery.';
  const known = OUTCOMES.map((outcome) => ({ outcome }));
  const attempts = counter(registry, { name: 'berth_webhook_attempts_total', help }, known);
  const latency = histogram(
    registry,
    {
      name: 'berth_close_to_delivery_seconds',
      help: 'From the close of an upload in the transfer log to the successful answer of its receiver.',
    },
    [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900],
  );
  return ({ outcome, sinceClose }) => {
    attempts(1, { outcome });
    // The difference is negative if the wall clock was set back.
    if (outcome === 'delivered') latency(Math.max(0, sinceClose) / 1_000_000);
  };
}

const CHECK_OUTCOMES = ['passed', 'rejected', 'failed', 'unchecked'] as const;

/** Metrics of files that are checked before they are announced. They exist only with a checker. */
export function checkMetrics(
  registry: Registry,
  { config, database, clock }: Pick<Ground, 'config' | 'database' | 'clock'>,
): (outcome: (typeof CHECK_OUTCOMES)[number], seconds: number) => void {
  const help = 'Checks of uploads by outcome; `unchecked`: announced without a check.';
  const known = CHECK_OUTCOMES.map((outcome) => ({ outcome }));
  const checks = counter(registry, { name: 'berth_checks_total', help }, known);
  const time = { name: 'berth_check_seconds_total', help: 'The total time of checks of uploads.' };
  const seconds = counter(registry, time, [{}]);
  const { reads } = database;
  const settling = config.settleSeconds * SECOND;
  /** How many there are, and since when the first has been due. */
  const checking = () =>
    reads
      .selectFrom('files')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .select(({ eb, fn }) => {
        const due = eb
          .case()
          .when('named_at', '=', 0)
          .then(eb.ref('uploaded_at'))
          .else(eb('named_at', '+', settling));
        return fn.min<number | null>(due.end()).as('since');
      })
      // A literal in the text, since SQLite could not use the partial index with a parameter.
      .where('state', '=', sql.lit('checking'))
      .where('named_at', '<=', clock.now() - settling)
      .executeTakeFirstOrThrow();
  const gauge = (name: string, about: string, read: () => Promise<number>): void =>
    scraped(registry, 'gauge', { name, help: about }, () => read().catch(() => ({})));
  gauge('berth_checking_files', 'Uploads that wait for their check.', async () => {
    const { count } = await checking();
    return count;
  });
  gauge('berth_checking_oldest_seconds', 'How long the oldest of them has waited; 0 without any.', async () => {
    const { since } = await checking();
    return since === null ? 0 : Math.max(0, clock.now() - since) / SECOND;
  });
  gauge(
    'berth_quarantined_files',
    'Uploads that were rejected, until an operator releases or deletes them.',
    async () => {
      const { count } = await reads
        .selectFrom('quarantine')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow();
      return count;
    },
  );
  return (outcome, took) => {
    checks(1, { outcome });
    seconds(took);
  };
}
