/** Ends the sessions of directories that expire. That nobody logs in after that is sshd's own doing (openssh/admit). */
import type { Background, Loop } from '../base/background.ts';
import { type Clock, type Micros, SECOND } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import { yielder } from '../base/event-loop.ts';
import type { Homes } from './homes.ts';
import type { DirectoryHost } from './host.ts';

const EVERY_MS = 1000;

/** A login may be half-way through when its directory expires, and see a clock that is a little behind ours. */
const OVERLAP: Micros = 2 * SECOND;

export interface ExpiryOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly host: Pick<DirectoryHost, 'endSessions'>;
  readonly homes: Pick<Homes, 'here'>;
  readonly background: Background;
}

/** Looks each second at those that have expired since it looked, at first at all: they may have while berth was down. */
export function startExpiry({ database, clock, host, homes, background }: ExpiryOptions): Loop {
  let seen: Micros = 0;
  return background.start('expiry', { every: EVERY_MS, atOnce: true }, async (signal) => {
    const yieldNow = yielder();
    const now = clock.now();
    const expired = await database.reads
      .selectFrom('directories')
      .select(['sftp_username', 'node'])
      .where('node', '=', homes.here)
      .where('expires_at', '>', Math.min(seen, now) - OVERLAP)
      .where('expires_at', '<=', now)
      .where('deleted_at', 'is', null)
      .execute();
    for (const directory of expired) {
      if (signal.aborted) return;
      await host.endSessions(directory);
      await yieldNow();
    }
    seen = now;
  });
}
