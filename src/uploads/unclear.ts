/**
 * For log lines whose name sshd had to cut: finds the files that may be meant by looking at the disk, and gives those
 * that changed the verdict of the line.
 */
import type { Stats } from 'node:fs';
import { lstatBeneath } from '../beneath.ts';
import type { Micros } from '../clock.ts';
import { type FilesRoot, fileStat, isSame } from './batch.ts';
import type { Change } from './change.ts';
import { filePath } from './file-path.ts';
import type { UploadQueries } from './queries.ts';
import { walkFiles } from './scan.ts';
import type { Place } from './settle.ts';

const SLASH = 0x2f;
const QUOTE = 0x22;

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
  readonly signal: AbortSignal;
}

/** Finds what a cut-off close line was about and emits the changes that it stands for. */
export async function resolveClose(options: UnclearOptions, close: UnclearClose): Promise<void> {
  const { place, start } = close;
  const root = options.filesRoot(place.sftp_username);
  const cut = start.lastIndexOf(SLASH);
  const parent = filePath(Buffer.concat([start.subarray(0, cut + 1), Buffer.from('x')]));
  if (!parent) return;
  const folder = parent.subarray(0, Math.max(parent.length - 2, 0));
  const begins = start.subarray(cut + 1);

  async function judge(path: Buffer, stats: Stats): Promise<void> {
    const row = await options.queries.fileAt(place.id, path);
    if (row && isSame(row, fileStat(stats))) return;
    if (options.isWritten(place.id, stats.ino)) return;
    const about = { directoryId: place.id, path, at: close.at };
    options.emit([
      close.forced
        ? { kind: 'cut-off', ...about }
        : { kind: 'closed', ...about, pid: close.pid, size: undefined, isGuess: true },
    ]);
  }

  if (folder.length > 0 && !lstatBeneath(root, folder)) return;
  const wanted = (path: Buffer): boolean => mayBe(firstBelow(path, folder), begins);
  await walkFiles(root, folder, { signal: options.signal, visit: judge, wanted });
}

/** The component of `path` right below `folder`. */
function firstBelow(path: Buffer, folder: Buffer): Buffer {
  const rest = folder.length === 0 ? path : path.subarray(folder.length + 1);
  const slash = rest.indexOf(SLASH);
  return slash === -1 ? rest : rest.subarray(0, slash);
}

/** Whether a component may be the one that the cut text begins, or holds whole with the line's wording behind it. */
function mayBe(component: Buffer, begins: Buffer): boolean {
  if (component.subarray(0, begins.length).equals(begins)) return true;
  return begins.subarray(0, component.length).equals(component) && begins[component.length] === QUOTE;
}
