/** Metrics of this process's state, read at each scrape: sessions, background loops, the event loop. */
import { statSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Background } from '../../foundation/base/background.ts';
import { databaseMetrics, type DatabaseSources } from './database.ts';
import { type Registry, scraped } from './registry.ts';

/** How often the event loop's delay is sampled. */
const RESOLUTION_MS = 20;

export interface StateSources extends DatabaseSources {
  readonly background: Pick<Background, 'failures'>;
  /** The file to which `openssh/admit` adds a byte for each login over the limit of connections. */
  readonly deniedLogins: string;
  uploads(): { readonly sessions: number; readonly transferLogRead: boolean; readonly watchesComplete: boolean };
}

export function stateMetrics(registry: Registry, sources: StateSources): void {
  const { deniedLogins, uploads, background } = sources;
  const gauge = (name: string, help: string, read: () => number): void =>
    scraped(registry, 'gauge', { name, help }, read);
  gauge('berth_sftp_sessions', 'Live SFTP sessions.', () => uploads().sessions);
  gauge('berth_transfer_log_up', '1 while the transfer log is read.', () => Number(uploads().transferLogRead));
  gauge(
    'berth_watcher_complete',
    '1 while every directory is watched, except crowded ones; 0 when scans cover some instead.',
    () => Number(uploads().watchesComplete),
  );
  databaseMetrics(registry, sources);
  const denied = {
    name: 'berth_logins_denied_total',
    help: 'Logins with the right password or key that exceeded max_connections. Resets when the machine restarts.',
    label: 'reason',
  };
  scraped(registry, 'counter', denied, () => ({
    'too-many-connections': statSync(deniedLogins, { throwIfNoEntry: false })?.size ?? 0,
  }));
  const failures = {
    name: 'berth_background_failures_total',
    help: 'Runs of background loops that failed and are retried.',
    label: 'loop',
  };
  scraped(registry, 'counter', failures, () => Object.fromEntries(background.failures()));
}

/** Measures until it is disposed of. */
export function eventLoopLag(registry: Registry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  // The histogram holds whole intervals, in ns.
  const late = (ns: number): number => (delay.count === 0 ? 0 : Math.max(0, ns / 1e6 - RESOLUTION_MS) / 1000);
  const lag = {
    name: 'berth_event_loop_lag_seconds',
    help: 'The lag of the event loop since the last scrape: median, 99th percentile and worst.',
    // Not `quantile`, which belongs to summaries.
    label: 'percentile',
  };
  scraped(registry, 'gauge', lag, () => {
    const samples = { 50: late(delay.percentile(50)), 99: late(delay.percentile(99)), 100: late(delay.max) };
    delay.reset();
    return samples;
  });
  return { [Symbol.dispose]: () => void delay.disable() };
}
