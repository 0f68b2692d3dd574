/**
 * For log lines whose name sshd had to cut: finds the files that may be meant by looking at the disk, and gives those
 * that changed the verdict of the line.
 *
 * Any number of such lines may come, each about a folder of any size: what comes while a directory is looked at shares
 * the next look, one directory is looked at at a time, and none for more than a tenth of the time.
 */
import type { Stats } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { lstatBeneath } from '../beneath.ts';
import type { Micros } from '../clock.ts';
import { CutNames } from './cut-names.ts';
import { type FilesRoot, fileStat, isSame } from './batch.ts';
import type { Change } from './change.ts';
import { filePath } from './file-path.ts';
import { createInTurn } from './in-turn.ts';
import type { UploadQueries } from './queries.ts';
import { walkFiles } from './scan.ts';
import type { Place } from './settle.ts';

const SLASH = 0x2f;

/** Lines of one directory that wait for its next look. */
const WAITING = 5000;

/** A directory rests this many times as long as the last look at it took. */
const RESTS_PER_LOOK = 9;

export interface UnclearClose {
  readonly place: Place;
  /** The logged name's beginning, or the whole of it with wording from a `"` on. */
  readonly start: Buffer;
  readonly forced: boolean;
  readonly pid: number;
  readonly at: Micros;
}

export interface UnclearOptions {
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'fileAt'>;
  isWritten(directoryId: string, inode: number): boolean;
  emit(changes: readonly Change[]): void;
  /** To be scanned instead: the directory cannot be looked at, or, without an error, too many lines wait for it. */
  scan(directoryId: string, error?: unknown): void;
  readonly signal: AbortSignal;
}

export interface Unclear {
  /** Finds what a cut-off close line was about and emits the changes that it stands for. */
  resolve(close: UnclearClose): void;
  close(): Promise<void>;
}

export function createUnclear(options: UnclearOptions): Unclear {
  const { signal } = options;
  const looks = new Map<string, { waiting: UnclearClose[]; done: Promise<void> }>();
  const inTurn = createInTurn();

  function resolve(close: UnclearClose): void {
    const { id } = close.place;
    const look = looks.get(id);
    if (!look) {
      const waiting = [close];
      looks.set(id, { waiting, done: lookAt(id, waiting) });
    } else if (look.waiting.length < WAITING) look.waiting.push(close);
    else options.scan(id);
  }

  async function lookAt(id: string, waiting: UnclearClose[]): Promise<void> {
    while (waiting.length > 0 && !signal.aborted) {
      const took = await inTurn(() => resolveAll(options, waiting.splice(0))).catch((error: unknown) => {
        options.scan(id, error);
        return 0;
      });
      await setTimeout(RESTS_PER_LOOK * took, undefined, { signal, ref: false }).catch(() => undefined);
    }
    looks.delete(id);
  }

  return {
    resolve,
    async close() {
      await Promise.all([...looks.values()].map(({ done }) => done));
    },
  };
}

/** One walk for each folder that the lines of one directory are about. Returns how long it took, in ms. */
async function resolveAll(options: UnclearOptions, closes: readonly UnclearClose[]): Promise<number> {
  const began = performance.now();
  const folders = new Map<string, { place: Place; folder: Buffer; names: CutNames<UnclearClose> }>();
  for (const close of closes) {
    const { place, start } = close;
    const cut = start.lastIndexOf(SLASH);
    const parent = filePath(Buffer.concat([start.subarray(0, cut + 1), Buffer.from('x')]));
    if (!parent) continue;
    const folder = parent.subarray(0, Math.max(parent.length - 2, 0));
    const key = folder.toString('latin1');
    const about = folders.get(key) ?? { place, folder, names: new CutNames<UnclearClose>() };
    folders.set(key, about);
    about.names.add(start.subarray(cut + 1), close);
  }
  for (const { place, folder, names } of folders.values()) {
    const root = options.filesRoot(place.sftp_username);
    if (folder.length > 0 && !lstatBeneath(root, folder)) continue;
    const lineOf = (path: Buffer): UnclearClose | undefined => names.of(firstBelow(path, folder));
    await walkFiles(root, folder, {
      signal: options.signal,
      wanted: (path) => lineOf(path) !== undefined,
      async visit(path, stats) {
        const close = lineOf(path);
        if (close) await judge(options, close, path, stats);
      },
    });
  }
  return performance.now() - began;
}

async function judge(options: UnclearOptions, close: UnclearClose, path: Buffer, stats: Stats): Promise<void> {
  const { id } = close.place;
  const row = await options.queries.fileAt(id, path);
  if (row && isSame(row, fileStat(stats))) return;
  if (options.isWritten(id, stats.ino)) return;
  const about = { directoryId: id, path, at: close.at };
  options.emit([
    close.forced
      ? { kind: 'cut-off', ...about }
      : { kind: 'closed', ...about, pid: close.pid, size: undefined, isGuess: true },
  ]);
}

/** The component of `path` right below `folder`. */
function firstBelow(path: Buffer, folder: Buffer): Buffer {
  const rest = folder.length === 0 ? path : path.subarray(folder.length + 1);
  const slash = rest.indexOf(SLASH);
  return slash === -1 ? rest : rest.subarray(0, slash);
}
