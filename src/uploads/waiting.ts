/**
 * Files under temporary names, which wait for their session to rename them: when it is over without that, they are
 * announced as they are. Sessions that ended while nobody watched are found by a sweep: berth was down, or a backup was
 * restored.
 */
import type { Clock } from '../clock.ts';
import { pathOf } from './file-path.ts';
import type { UploadQueries, WaitingFile } from './queries.ts';
import type { BySession } from './record/evidence.ts';
import type { Ledger, Place } from './record/ledger.ts';

export interface WaitingOptions {
  readonly clock: Clock;
  readonly queries: Pick<UploadQueries, 'waiting'>;
  readonly ledger: Pick<Ledger, 'over'>;
  /** Whether that process serves a session of the directory. */
  isLive(directoryId: string, pid: number): boolean;
}

export interface Waiting {
  /** A session is over. */
  over(place: Place, by: BySession, at: number): Promise<void>;
  /** Two sweeps have to agree: sessions that were there before are taken up one by one. */
  sweep(): Promise<void>;
}

export function createWaiting({ clock, queries, ledger, isLive }: WaitingOptions): Waiting {
  let suspects = new Set<string>();
  const key = ({ place, path }: WaitingFile): string => `${place.id} ${pathOf(path)}`;
  return {
    async over({ id: directoryId }, by, at) {
      for (const { place, path } of await queries.waiting({ directoryId, pid: by.pid })) {
        ledger.over(place, pathOf(path), { by, at });
      }
    },
    async sweep() {
      const orphans = (await queries.waiting()).filter(({ place, pid }) => !isLive(place.id, pid));
      for (const orphan of orphans) {
        if (!suspects.has(key(orphan))) continue;
        ledger.over(orphan.place, pathOf(orphan.path), { by: undefined, at: clock.now() });
      }
      suspects = new Set(orphans.map(key));
    },
  };
}
