/**
 * The uploads of one directory whose file has not been found, by what a file has to share with them: its inode, its size, its folder and
 * the beginning of its name, or the whole name.
 *
 * Promise: however much a user leaves behind, a directory has at most `MOST` of them, and a look goes through those that its file may be of.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { baseName, type FilePath, folderOf, withoutSuffix } from '../file-path.ts';
import type { FileIdentity } from '../record/file-stat.ts';
import type { Ending } from './operations.ts';

/** How many are remembered. */
const MOST = 1000;

/** How much of a name that the log has cut off is looked up, in bytes. */
const LOOKED_UP = 16;

export interface LostEnding {
  readonly end: Ending;
  /** Undefined for an upload whose file had lost its name. */
  readonly cutOff?: CutOff | undefined;
  /** A row that was written from the log has the upload, and waits for its file. */
  readonly isAwaited?: true;
  /** Its path, if there was no file then. */
  readonly missingAt?: FilePath | undefined;
  /** When the folder that was there then had been created; 0 if there was none. */
  readonly folderBornAt?: Micros;
}

/** What is known of an upload whose name the log has cut off. */
export interface CutOff {
  /** The beginning of the logged name, or the whole name followed by a `"` and part of the log's wording. */
  readonly start: string;
  /** Without a change of times, a file that the session has written has a new mtime. */
  readonly session: { readonly hasSetCutOff: boolean };
}

export class LostEndings {
  /** With their order: later ones have higher numbers. The oldest comes first. */
  readonly #all = new Map<LostEnding, number>();
  readonly #by = new Map<string, Set<LostEnding>>();
  #added = 0;

  get size(): number {
    return this.#all.size;
  }

  add(ending: LostEnding): void {
    this.#added += 1;
    this.#insert(ending, this.#added);
    const [oldest] = this.#all.keys();
    if (oldest && this.#all.size > MOST) this.#delete(oldest);
  }

  #insert(ending: LostEnding, order: number): void {
    this.#all.set(ending, order);
    for (const key of keysOf(ending)) this.#by.set(key, (this.#by.get(key) ?? new Set()).add(ending));
  }

  #delete(ending: LostEnding): void {
    this.#all.delete(ending);
    for (const key of keysOf(ending)) {
      const same = this.#by.get(key);
      same?.delete(ending);
      if (same?.size === 0) this.#by.delete(key);
    }
  }

  /** Removes an upload whose file has been recorded. A dropped one with a cut-off name stays, because it may have left another file. */
  remove(end: Ending): void {
    for (const each of this.#all.keys())
      if (each.end === end && (end.isComplete || each.cutOff === undefined)) this.#delete(each);
  }

  /**
   * Those that may have left the file, the newest first, as far as the keys show.
   * @param recordedAt the `uploaded_at` of its row.
   */
  of(path: FilePath, { inode, size_bytes }: FileIdentity, recordedAt: Micros | undefined): LostEnding[] {
    if (this.#all.size === 0) return [];
    const keys = [`inode ${inode}`, `size ${size_bytes}`, `row ${recordedAt}`, `named ${baseName(path)}`];
    // The log may have cut off the name of a folder, too.
    for (let start = 0, end = 0; end < path.length; start = end + 1) {
      end = path.indexOf('/', start);
      if (end === -1) end = path.length;
      const folder = path.slice(0, start);
      keys.push(`in ${folder}`, `in ${folder}${path.slice(start, Math.min(end, start + LOOKED_UP))}`);
    }
    const found = keys.map((key) => this.#by.get(key)).filter((same) => same !== undefined);
    // Each set is in order.
    if (found.length < 2) return [...(found[0] ?? [])].toReversed();
    const all = new Set(found.flatMap((same) => [...same]));
    return [...all].toSorted((a, b) => (this.#all.get(b) ?? 0) - (this.#all.get(a) ?? 0));
  }

  /** A folder was renamed, and with it files whose names the log has cut off. */
  moved(from: FilePath, to: FilePath): void {
    const isMoved = ({ cutOff }: LostEnding): boolean =>
      cutOff !== undefined && folderOf(cutOff.start)?.startsWith(`${from}/`) === true;
    const all = [...this.#all];
    if (!all.some(([each]) => isMoved(each))) return;
    this.#all.clear();
    this.#by.clear();
    for (const [each, order] of all) this.#insert(isMoved(each) ? after(each, from, to) : each, order);
  }
}

function after(ending: LostEnding, from: FilePath, to: FilePath): LostEnding {
  const { cutOff } = ending;
  if (!cutOff) return ending;
  const { start } = cutOff;
  const moved = to + (folderOf(start) ?? '').slice(from.length) + baseName(start);
  return { ...ending, cutOff: { ...cutOff, start: moved } };
}

/** What a file has to share one of with an upload that may have left it (`Lost.endingOf`). */
function keysOf({ end, cutOff, isAwaited, missingAt }: LostEnding): string[] {
  const { inode, openedAt, written, bytes = openedAt === undefined ? written : undefined } = end;
  const keys: string[] = [];
  if (inode !== undefined) keys.push(`inode ${inode}`);
  if (isAwaited) keys.push(`row ${end.at}`);
  else if (bytes !== undefined && !end.isOfUnknownSize) keys.push(`size ${bytes}`);
  if (missingAt !== undefined && inode === undefined)
    keys.push(...[missingAt, withoutSuffix(missingAt)].map((path) => `named ${baseName(path)}`));
  const folder = cutOff && folderOf(cutOff.start);
  if (!cutOff || folder === undefined) return keys;
  const said = baseName(cutOff.start).slice(0, LOOKED_UP);
  // A name that is shorter, or may be followed by the log's wording, is found by its folder alone.
  keys.push(`in ${folder}${said.length < LOOKED_UP || said.includes('"') ? '' : said}`);
  return keys;
}
