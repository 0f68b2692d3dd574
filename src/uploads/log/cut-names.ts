/** Closes of which the log told only the beginning of the name, until a scan finds the files that they are about. */
import { LRUCache } from 'lru-cache';
import { type FilePath, filePath } from '../file-path.ts';
import type { HandleEnd } from '../record/evidence.ts';

const QUOTE = '"';

/** Lines of one directory that are remembered; directories for which some are. */
const LINES = 1000;
const DIRECTORIES = 1000;

export interface CutClose extends HandleEnd {
  /** The logged name's beginning, or the whole of it with wording from a `"` on. */
  readonly start: string;
}

export class CutNames {
  /** By directory, the last one first. */
  readonly #closes = new LRUCache<string, readonly CutClose[]>({ max: DIRECTORIES });

  add(directoryId: string, close: CutClose): void {
    const others = this.#closes.get(directoryId) ?? [];
    this.#closes.set(directoryId, [close, ...others].slice(0, LINES));
  }

  /** The last close of a file that has this path. */
  of(directoryId: string, path: FilePath): CutClose | undefined {
    return this.#closes.get(directoryId)?.find(({ start }) => mayBe(start, path));
  }

  /** Closes up to that moment have been looked for. */
  forget(directoryId: string, upTo: number): void {
    const left = (this.#closes.get(directoryId) ?? []).filter(({ at }) => at > upTo);
    if (left.length > 0) this.#closes.set(directoryId, left);
    else this.#closes.delete(directoryId);
  }
}

function mayBe(start: string, path: FilePath): boolean {
  // The folders of a name can be spelled in many ways; its last component was cut, or hides the wording.
  const cut = start.lastIndexOf('/') + 1;
  const folder = filePath(`${start.slice(0, cut)}x`)?.slice(0, -1);
  if (folder === undefined || !path.startsWith(folder)) return false;
  const [name = ''] = path.slice(folder.length).split('/', 1);
  const said = start.slice(cut);
  return name.startsWith(said) || said.startsWith(`${name}${QUOTE}`);
}
