/** One berth, or one sshd, for the tests of a file: a start costs more than most tests do. */
import { after } from 'node:test';
import type { HostedDirectory } from '../../src/rules/directories/host.ts';
import type { LocalHost } from '../../src/machine/sftp/host.ts';
import { type BerthOptions, startBerth, type TestBerth } from './berth.ts';
import type { ReceiverOptions } from './receiver.ts';
import { type Scratch, scratch } from './scratch.ts';
import { directory, hostOf, PASSWORD } from './sftp-user.ts';
import { type Sshd, startSshd } from './sshd.ts';

/**
 * Starts it at the first call and ends it after the file's last test. Each test has an account and a webhook receiver of its own.
 * Tests of a file run one after the other, so one may stop berth, or break what all accounts have in common, until its end.
 * @param settings of that berth.
 */
export function sharedBerth(settings: Record<string, string> = {}, options: BerthOptions = {}) {
  const berth = once(async (parts) => parts.use(await startBerth(parts.use(scratch(settings)), options)));
  return async (ofReceiver?: ReceiverOptions): Promise<TestBerth> => (await berth()).tenant(ofReceiver);
}

/** One with a dashboard. */
export function sharedDashboard() {
  return sharedBerth({ BERTH_DASHBOARD: 'on' });
}

export interface SharedSshd {
  readonly place: Scratch;
  readonly sshd: Sshd;
  readonly host: LocalHost;
  /** One more user, with a password, and what a client logs in with. */
  user(): Promise<{ row: HostedDirectory; login: { port: number; username: string; password: string } }>;
}

/** Like `sharedBerth`, for an sshd without a berth: only the host makes its users. */
export function sharedSshd(): () => Promise<SharedSshd> {
  return once(async (parts) => {
    const place = parts.use(scratch());
    const sshd = parts.use(await startSshd(place));
    const host = parts.use(hostOf(sshd.paths));
    const user = async () => {
      const row = directory();
      await host.apply(row);
      return { row, login: { port: sshd.port, username: row.sftp_username, password: PASSWORD } };
    };
    return { place, sshd, host, user };
  });
}

function once<T>(start: (parts: AsyncDisposableStack) => Promise<T>): () => Promise<T> {
  const parts = new AsyncDisposableStack();
  let started: Promise<T> | undefined;
  after(() => parts.disposeAsync());
  return () => (started ??= start(parts));
}
