/**
 * Files that changed with no session to explain it: an administrator's `cp`, or anything while berth was down. When
 * size and mtime have rested for two seconds and nobody holds the file open for writing, it is an upload. What has gone
 * is waited for a second longer, so that a move is seen as one.
 */
import type { Stats } from 'node:fs';
import { lstatBeneath } from '../beneath.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { turns } from './turns.ts';
import { type FilesRoot, fileStat, isSame } from './batch.ts';
import type { Change } from './change.ts';
import type { UploadQueries } from './queries.ts';

/** How long a file has to stay as it is, in ms. */
const REST = 2000;
const GONE_REST = 3000;
/** How often due files are looked for, in ms. */
const TICK = 200;
export interface Place {
  readonly id: string;
  readonly sftp_username: string;
}

export interface SettlerOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'fileAt'>;
  isWritten(directoryId: string, inode: number): boolean;
  /** Whether a session that died while it wrote the file has yet to be missed. */
  isOpen(directoryId: string, path: Buffer): boolean;
  /** A live session of the directory, if there is one. */
  sessionOf(directoryId: string): number | undefined;
  emit(changes: readonly Change[]): void;
}

interface Suspect {
  readonly place: Place;
  readonly path: Buffer;
  /** By the monotonic clock, in ms. */
  due: number;
  seen: Stats | undefined;
}

export interface Settler {
  /** Something happened to that file: look when it has rested. */
  suspect(place: Place, path: Buffer): void;
  /** The file seems to have gone. */
  missing(place: Place, path: Buffer): void;
  /** A file as a scan sees it: taken at once when it has rested already. */
  examine(place: Place, path: Buffer, stats: Stats): Promise<void>;
  /** The log explained the change; no look is needed. */
  explained(directoryId: string, path: Buffer): void;
  close(): void;
}

export function createSettler(options: SettlerOptions): Settler {
  const suspects = new Map<string, Suspect>();
  const timer = setInterval(() => void turn(), TICK).unref();
  let turning = false;

  async function turn(): Promise<void> {
    if (turning) return;
    turning = true;
    const now = performance.now();
    const breath = turns();
    // What is added or put off meanwhile goes to the end, and is not due yet.
    for (const [key, suspect] of suspects) {
      if (suspect.due > now) continue;
      suspects.delete(key);
      await look(suspect);
      await breath();
    }
    turning = false;
  }

  async function look(suspect: Suspect): Promise<void> {
    const { place, path } = suspect;
    try {
      const stats = lstatBeneath(options.filesRoot(place.sftp_username), path);
      if (stats?.isFile()) await judge(place, path, stats, suspect.seen);
      else if (await options.queries.fileAt(place.id, path)) {
        options.emit([{ kind: 'removed', directoryId: place.id, path, at: options.clock.now() }]);
      }
    } catch (error) {
      options.log.error({ err: error, directory: place.id }, 'cannot look at a file, trying again');
      later(place, path, REST, undefined);
    }
  }

  async function judge(place: Place, path: Buffer, stats: Stats, seen: Stats | undefined): Promise<void> {
    const stat = fileStat(stats);
    const row = await options.queries.fileAt(place.id, path);
    if (row && isSame(row, stat)) {
      // Of a restored backup: the row gets to know its file.
      if (row.inode < 0)
        options.emit([{ kind: 'found', directoryId: place.id, path, at: options.clock.now(), pid: undefined }]);
      return;
    }
    // Its close will be logged, or its process be missed and the file be cut off.
    if (options.isWritten(place.id, stats.ino) || options.isOpen(place.id, path)) return;
    const at = options.clock.now();
    // ctime is the kernel's: clients cannot set it. Under a clock that jumped, two looks have to agree instead.
    const age = at / 1000 - stats.ctimeMs;
    const rested = (age >= REST && age < 1e12) || (seen !== undefined && isSame(fileStat(seen), stat));
    if (!rested) return again(place, path, stats);
    options.emit([{ kind: 'found', directoryId: place.id, path, at, pid: options.sessionOf(place.id) }]);
  }

  /** Looks once more, in time. Scans that follow each other closely must not put that off for ever. */
  function again(place: Place, path: Buffer, stats: Stats): void {
    const seen = suspects.get(suspectKey(place.id, path))?.seen;
    if (!seen || !isSame(fileStat(seen), fileStat(stats))) later(place, path, REST, stats);
  }

  function later(place: Place, path: Buffer, delay: number, seen: Stats | undefined): void {
    const key = suspectKey(place.id, path);
    suspects.delete(key); // to the end of the line
    suspects.set(key, { place, path, due: performance.now() + delay, seen });
  }

  return {
    suspect: (place, path) => later(place, path, REST, undefined),
    missing: (place, path) => later(place, path, GONE_REST, undefined),
    examine: (place, path, stats) => judge(place, path, stats, undefined),
    explained: (directoryId, path) => void suspects.delete(suspectKey(directoryId, path)),
    close: () => clearInterval(timer),
  };
}

function suspectKey(directoryId: string, path: Buffer): string {
  return `${directoryId}/${path.toString('latin1')}`;
}
