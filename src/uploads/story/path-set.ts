/** Paths that are in use: an operation about an equal path, one above or one below has to wait. */
import type { FilePath } from '../file-path.ts';

export class PathSet {
  /** How often each was added. */
  readonly #paths = new Map<FilePath, number>();
  /** Every folder above one of them, and how often. */
  readonly #above = new Map<FilePath, number>();
  /** How often everything was added. */
  #all = 0;

  add(paths: readonly FilePath[]): void {
    this.#count(paths, 1);
  }

  /** Takes back one `add` of the same paths. */
  remove(paths: readonly FilePath[]): void {
    this.#count(paths, -1);
  }

  /** Everything is in use. */
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

  /** Whether these paths, which were added once, touch any that was added besides. */
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

/** Where the folder that a path lies in ends; not above 0 for `files/` itself. */
function endOfParent(path: FilePath, end = path.length): number {
  return path.lastIndexOf('/', end - 1);
}
