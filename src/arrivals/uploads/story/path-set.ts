/**
 * A set of paths that are in use. An operation has to wait if one of its paths is equal to, above or below one of
 * these.
 */
import type { FilePath } from '../file-path.ts';

export class PathSet {
  /** How often each path was added. */
  readonly #paths = new Map<FilePath, number>();
  /** The folders above the added paths, each with the number of paths below it. */
  readonly #above = new Map<FilePath, number>();
  /** How many calls of `addAll` are in effect. */
  #all = 0;

  add(paths: readonly FilePath[]): void {
    this.#count(paths, 1);
  }

  /** Takes back one `add` of the same paths. */
  remove(paths: readonly FilePath[]): void {
    this.#count(paths, -1);
  }

  /** Marks all paths as in use. */
  addAll(): void {
    this.#all += 1;
  }

  removeAll(): void {
    this.#all -= 1;
  }

  get isEmpty(): boolean {
    return this.#all === 0 && this.#paths.size === 0;
  }

  touches(paths: readonly FilePath[]): boolean {
    return this.#all > 0 || (this.#paths.size > 0 && paths.some((path) => this.#touches(path, 0)));
  }

  /** Whether these paths, which are in the set themselves, touch any other path in the set. */
  touchesOthers(paths: readonly FilePath[]): boolean {
    return this.#all > 0 || paths.some((path) => this.#touches(path, 1));
  }

  #touches(path: FilePath, own: number): boolean {
    if ((this.#paths.get(path) ?? 0) > own || this.#above.has(path)) return true;
    for (let end = endOfParent(path); end > 0; end = endOfParent(path, end)) {
      if (this.#paths.has(path.slice(0, end))) return true;
    }
    return false;
  }

  #count(paths: readonly FilePath[], by: 1 | -1): void {
    for (const path of paths) {
      change(this.#paths, path, by);
      for (let end = endOfParent(path); end > 0; end = endOfParent(path, end)) {
        change(this.#above, path.slice(0, end), by);
      }
    }
  }
}

function change(counts: Map<FilePath, number>, path: FilePath, by: 1 | -1): void {
  const count = (counts.get(path) ?? 0) + by;
  if (count === 0) counts.delete(path);
  else counts.set(path, count);
}

/** Where the folder part of a path ends; not above 0 for a path directly in `files/`. */
function endOfParent(path: FilePath, end = path.length): number {
  return path.lastIndexOf('/', end - 1);
}
