/**
 * Files under temporary names whose session is over without anybody having seen its end: it ended while berth was down, or
 * on another machine, from which a backup was restored. For these the end is declared, which announces them.
 */
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { SessionEnded } from './change.ts';
import type { UploadQueries } from './queries.ts';

/** How often they are looked for, in ms. Two looks have to agree: sessions that were there before are taken up one by one. */
const SWEEP = 2000;

export interface OrphansOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly queries: Pick<UploadQueries, 'awaitedSessions'>;
  /** Whether that process serves a session of the directory. */
  isLive(directoryId: string, pid: number): boolean;
  emit(changes: readonly SessionEnded[]): void;
}

export interface Orphans {
  close(): void;
}

/** Call it when the live sessions are about to be known, at the start: the first look comes some seconds later. */
export function startOrphans({ clock, log, queries, isLive, emit }: OrphansOptions): Orphans {
  let suspects = new Set<string>();

  async function look(): Promise<void> {
    const next = new Set<string>();
    for (const { directory_id: directoryId, session_pid: pid } of await queries.awaitedSessions()) {
      if (pid === null || isLive(directoryId, pid)) continue;
      const key = `${directoryId} ${pid}`;
      if (suspects.has(key)) emit([{ kind: 'session-ended', directoryId, pid, at: clock.now() }]);
      else next.add(key);
    }
    suspects = next;
  }

  const timer = setInterval(() => {
    look().catch((error: unknown) => log.error({ err: error }, 'cannot look for files whose session is over'));
  }, SWEEP).unref();
  return { close: () => clearInterval(timer) };
}
