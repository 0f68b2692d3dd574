/** How things stand, looked at when a scrape asks: sessions, outbox, partial uploads, the watch over the jails. */
import { statSync } from 'node:fs';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import { OPEN_STATES, type StateQueries } from './queries.ts';

export interface StateSources {
  readonly queries: StateQueries;
  readonly clock: Clock;
  /** The file to which `openssh/admit` adds a byte for each login over the limit of connections. */
  readonly deniedLogins: string;
  uploads(): { readonly sessions: number; readonly transferLogRead: boolean; readonly watchesComplete: boolean };
}

export function stateMetrics(registry: Registry, { queries, clock, deniedLogins, uploads }: StateSources): void {
  const registers: Registry[] = [];
  const gauge = (name: string, help: string, read: () => number | Promise<number>): void => {
    const metric = new Gauge({
      name,
      help,
      registers,
      async collect() {
        this.set(await read());
      },
    });
    registry.registerMetric(metric);
  };
  gauge('berth_sftp_sessions', 'Live SFTP sessions.', () => uploads().sessions);
  gauge('berth_transfer_log_up', '1 while the transfer log is read.', () => Number(uploads().transferLogRead));
  gauge('berth_watcher_complete', '1 while every change on the disk is seen; 0 when slow scans stand in.', () =>
    Number(uploads().watchesComplete),
  );
  gauge('berth_partial_uploads', 'Files whose upload was cut off and not completed.', () => queries.partialUploads());
  const outbox = new Gauge({
    name: 'berth_outbox_deliveries',
    help: 'Webhooks still to be delivered: due (queued), being sent (running), waiting for a retry (waiting).',
    labelNames: ['state'],
    registers,
    async collect() {
      for (const state of OPEN_STATES) this.set({ state }, (await queries.outbox(state)).count);
    },
  });
  gauge('berth_outbox_oldest_seconds', 'Age of the oldest webhook still to be delivered; 0 without any.', async () => {
    const now = clock.now();
    const ages = OPEN_STATES.map(async (state) => now - ((await queries.outbox(state)).oldest ?? now));
    return Math.max(0, ...(await Promise.all(ages))) / 1_000_000;
  });
  const denied = new Counter({
    name: 'berth_logins_denied_total',
    help: 'Logins with the right password or key that were refused for their number. Resets with the machine.',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      this.inc({ reason: 'too-many-connections' }, statSync(deniedLogins, { throwIfNoEntry: false })?.size ?? 0);
    },
  });
  registry.registerMetric(outbox);
  registry.registerMetric(denied);
}
