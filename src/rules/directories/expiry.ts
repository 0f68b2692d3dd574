/** Ends the sessions of directories when they expire. sshd itself refuses later logins (openssh/admit). */
import type { Background, Loop } from '../../foundation/base/background.ts';
import { type Clock, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import type { NodePlacement } from './node-placement.ts';
import type { DirectoryHost } from './host.ts';

const EVERY_MS = 1000;

/** A login may be under way when its directory expires, and may read a clock that is slightly behind. */
const OVERLAP: Micros = 2 * SECOND;

export interface ExpiryOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly host: Pick<DirectoryHost, 'endSessions'>;
  readonly placement: Pick<NodePlacement, 'here'>;
  readonly background: Background;
}

/** Runs every second for directories that expired since the last run. The first run takes all: berth may have been down. */
export function startExpiry({ database, clock, host, placement, background }: ExpiryOptions): Loop {
  let lastRun: Micros = 0;
  return background.start('expiry', { every: EVERY_MS, atOnce: true }, async (signal) => {
    const yieldNow = yielder();
    const now = clock.now();
    const expired = await database.reads
      .selectFrom('directories')
      .select(['sftp_username', 'node'])
      .where('node', '=', placement.here)
      .where('expires_at', '>', Math.min(lastRun, now) - OVERLAP)
      .where('expires_at', '<=', now)
      .where('deleted_at', 'is', null)
      .execute();
    for (const directory of expired) {
      if (signal.aborted) return;
      await host.endSessions(directory);
      await yieldNow();
    }
    lastRun = now;
  });
}
