/** The state of berth, read when a scrape asks: sessions, outbox, partial uploads, background loops, the event loop. */
import { statSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Kysely, sql } from 'kysely';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Background } from '../background.ts';
import type { Clock } from '../clock.ts';
import type { Tables } from '../db/schema.ts';
import { scraped } from './scraped.ts';

const OPEN_STATES = ['queued', 'running', 'waiting'] as const;

/** How often the event loop's delay is sampled, in ms. */
const RESOLUTION = 20;

export interface StateSources {
  readonly reads: Kysely<Tables>;
  readonly clock: Clock;
  readonly background: Pick<Background, 'failures'>;
  /** The file to which `openssh/admit` adds a byte for each login over the limit of connections. */
  readonly deniedLogins: string;
  uploads(): { readonly sessions: number; readonly transferLogRead: boolean; readonly watchesComplete: boolean };
}

export function stateMetrics(registry: Registry, sources: StateSources): void {
  const { reads, clock, deniedLogins, uploads, background } = sources;
  const gauge = (name: string, help: string, read: () => number | Promise<number>): void =>
    scraped(registry, Gauge, { name, help }, read);
  gauge('berth_sftp_sessions', 'Live SFTP sessions.', () => uploads().sessions);
  gauge('berth_transfer_log_up', '1 while the transfer log is read.', () => Number(uploads().transferLogRead));
  gauge('berth_watcher_complete', '1 while every change on the disk is seen; 0 when slow scans stand in.', () =>
    Number(uploads().watchesComplete),
  );
  gauge('berth_partial_uploads', 'Files whose upload was cut off and not completed.', () => partialUploads(reads));
  gauge('berth_outbox_oldest_seconds', 'Age of the oldest webhook still to be delivered; 0 without any.', async () => {
    const now = clock.now();
    const oldest = await Promise.all(OPEN_STATES.map(async (state) => (await outbox(reads, state)).oldest ?? now));
    return Math.max(0, now - Math.min(...oldest)) / 1_000_000;
  });
  gauge(
    'berth_clock_lead_seconds',
    'How far the clock is ahead of the time that has passed; see berth clock.',
    async () => {
      const { lead } = await reads.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
      return lead / 1_000_000;
    },
  );
  const deliveries = {
    name: 'berth_outbox_deliveries',
    help: 'Webhooks still to be delivered: due (queued), being sent (running), waiting for a retry (waiting).',
    label: 'state',
  };
  scraped(registry, Gauge, deliveries, async () => {
    const counts = OPEN_STATES.map(async (state) => [state, (await outbox(reads, state)).count] as const);
    return Object.fromEntries(await Promise.all(counts));
  });
  const denied = {
    name: 'berth_logins_denied_total',
    help: 'Logins with the right password or key that were refused for their number. Resets with the machine.',
    label: 'reason',
  };
  scraped(registry, Counter, denied, () => ({
    'too-many-connections': statSync(deniedLogins, { throwIfNoEntry: false })?.size ?? 0,
  }));
  const failures = {
    name: 'berth_background_failures_total',
    help: 'Runs of background loops that failed and are tried again.',
    label: 'loop',
  };
  scraped(registry, Counter, failures, () => Object.fromEntries(background.failures()));
}

/** Measures until it is disposed of. prom-client's own metric counts the whole interval, so small lags hardly show. */
export function eventLoopLag(registry: Registry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION });
  delay.enable();
  // The histogram holds whole intervals, in ns.
  const late = (ns: number): number => (delay.count === 0 ? 0 : Math.max(0, ns / 1e6 - RESOLUTION) / 1000);
  const lag = {
    name: 'berth_event_loop_lag_seconds',
    help: 'How late the event loop was since the last scrape: median, 99th percentile and worst.',
    // Not `quantile`, which belongs to summaries.
    label: 'percentile',
  };
  scraped(registry, Gauge, lag, () => {
    const samples = { 50: late(delay.percentile(50)), 99: late(delay.percentile(99)), 100: late(delay.max) };
    delay.reset();
    return samples;
  });
  return { [Symbol.dispose]: () => void delay.disable() };
}

/** Deliveries in that state, and since when the oldest has been in the outbox. */
function outbox(reads: Kysely<Tables>, state: (typeof OPEN_STATES)[number]) {
  return (
    reads
      .selectFrom('deliveries')
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('inserted_at').as('oldest')])
      // A literal in the text, or SQLite could not use the index of just these.
      .where('state', '=', sql.lit(state))
      .executeTakeFirstOrThrow()
  );
}

async function partialUploads(reads: Kysely<Tables>): Promise<number> {
  const { count } = await reads
    .selectFrom('files')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', sql.lit('partial'))
    .executeTakeFirstOrThrow();
  return count;
}
