/** Paths that are in use: an operation about an equal path, one above or one below has to wait. */
import type { FilePath } from '../file-path.ts';

export class PathSet {
  readonly #paths = new Set<FilePath>();
  /** Every folder above one of them. */
  readonly #above = new Set<FilePath>();
  #isAll = false;

  add(paths: readonly FilePath[]): void {
    for (const path of paths) {
      if (this.#paths.has(path)) continue;
      this.#paths.add(path);
      for (const folder of foldersAbove(path)) this.#above.add(folder);
    }
  }

  /** Everything is in use. */
  addAll(): void {
    this.#isAll = true;
  }

  get isEmpty(): boolean {
    return !this.#isAll && this.#paths.size === 0;
  }

  touches(paths: readonly FilePath[]): boolean {
    return this.#isAll || (this.#paths.size > 0 && paths.some((path) => this.#touches(path)));
  }

  #touches(path: FilePath): boolean {
    if (this.#paths.has(path) || this.#above.has(path)) return true;
    for (const folder of foldersAbove(path)) if (this.#paths.has(folder)) return true;
    return false;
  }
}

/** Without `files/` itself. */
function* foldersAbove(path: FilePath): Generator<FilePath> {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) yield path.slice(0, end);
}
