/** One berth for the tests of a file: a start costs more than most tests do. */
import { after } from 'node:test';
import { startBerth, type TestBerth } from './berth.ts';
import type { ReceiverOptions } from './receiver.ts';
import { scratch } from './scratch.ts';

/**
 * Starts it at the first call and ends it after the file's last test. Each test has an account and a webhook receiver of its own.
 * A test that stops berth, or looks at what all accounts have in common, needs `startBerth`.
 * @param settings of that berth.
 */
export function sharedBerth(settings: Record<string, string> = {}) {
  const parts = new AsyncDisposableStack();
  let started: Promise<TestBerth> | undefined;
  after(() => parts.disposeAsync());
  const start = async (): Promise<TestBerth> => parts.use(await startBerth(parts.use(scratch(settings))));
  return async (ofReceiver?: ReceiverOptions): Promise<TestBerth> => (await (started ??= start())).tenant(ofReceiver);
}

/** One with a dashboard. */
export function sharedDashboard() {
  return sharedBerth({ BERTH_DASHBOARD: 'on' });
}
