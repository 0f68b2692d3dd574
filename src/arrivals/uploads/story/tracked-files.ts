/** The files that a story follows, by their paths as far as the log has been read. */
import { beginsLike, type FilePath } from '../file-path.ts';
import { File, type Kernel, SET_SHOWS_MS } from './sessions.ts';

/** How many names with set times or sizes are remembered that the log has cut off. */
const SETS = 1000;

export class TrackedFiles {
  readonly #files = new Map<FilePath, File>();
  readonly #kernel: Kernel;
  /** When clients have set times or a size of files whose names begin like that, by the monotonic clock in ms, oldest first. */
  readonly #sets = new Map<string, number>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  get size(): number {
    return this.#files.size;
  }

  at(path: FilePath): File | undefined {
    return this.#files.get(path);
  }

  ensure(path: FilePath): File {
    const file = this.#files.get(path) ?? new File(path, this.#kernel);
    this.#files.set(path, file);
    return file;
  }

  /** A client has set the times or the size of a file whose name the log has cut off after `start`. */
  set(start: string): void {
    const now = this.#kernel.monotonic();
    for (const [path, file] of this.#files) if (beginsLike(path, start)) file.setAt = now;
    this.#sets.delete(start);
    this.#sets.set(start, now);
    for (const [oldest, at] of this.#sets)
      if (this.#sets.size > SETS || now - at > SET_SHOWS_MS) this.#sets.delete(oldest);
      else break;
  }

  /** Whether a client may have set the times or the size of that file a moment ago. */
  wasSet(path: FilePath): boolean {
    const now = this.#kernel.monotonic();
    const isMeant = ([start, at]: [string, number]): boolean => now - at < SET_SHOWS_MS && beginsLike(path, start);
    return this.at(path)?.wasSet === true || this.#sets.entries().some(isMeant);
  }

  /** Forgets a file that is no longer needed. */
  forget(file: File): void {
    if (file.path !== undefined && !file.isNeeded && this.#files.get(file.path) === file) this.#files.delete(file.path);
  }

  /** A file that has lost that name: only its handles know it. */
  nameless(path: FilePath): File {
    const file = new File(undefined, this.#kernel);
    file.lostPath = path;
    return file;
  }

  /** The file was removed or replaced: only its handles know it from here on. */
  loseName(path: FilePath): void {
    const file = this.#files.get(path);
    if (!file) return;
    this.#files.delete(path);
    file.path = undefined;
    file.lostPath = path;
  }

  /** A file or folder was renamed. Files that were at the new path lose their name. */
  move(from: FilePath, to: FilePath): void {
    const moving = [...this.#files.values()].filter(({ path = '' }) => path === from || isBelow(path, from));
    // A file that is only remembered because its times or size were set keeps its name, in case the log is wrong about
    // the rename.
    for (const [path, file] of this.#files) {
      if (path !== to && !isBelow(path, to)) continue;
      if (file.isKnown) this.loseName(path);
      else file.resized = undefined;
    }
    for (const file of moving) {
      const path = file.path ?? '';
      this.#files.delete(path);
      file.path = to + path.slice(from.length);
      file.setAt = Math.max(file.setAt, this.#files.get(file.path)?.setAt ?? file.setAt);
      this.#files.set(file.path, file);
    }
  }

  /** A file below a folder whose inode is known. */
  knownBelow(folder: FilePath): { readonly path: FilePath; readonly inode: number } | undefined {
    for (const [path, { inode }] of this.#files)
      if (inode !== undefined && isBelow(path, folder)) return { path, inode };
    return undefined;
  }

  /** Whether the log says that there is a file at a path or below it. */
  isAnyKnownAt(path: FilePath): boolean {
    for (const [each, { isKnown }] of this.#files) {
      if (isKnown && (each === path || isBelow(each, path))) return true;
    }
    return false;
  }
}

/** Whether `path` is below `folder`. */
export function isBelow(path: FilePath, folder: FilePath): boolean {
  return path.length > folder.length && path.startsWith(folder) && path[folder.length] === '/';
}
