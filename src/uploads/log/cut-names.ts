/** Closes of which the log told only the beginning of the name, until somebody finds the files that they are about. */
import { LRUCache } from 'lru-cache';
import type { FilePath } from '../file-path.ts';
import { filePath } from '../file-path.ts';
import type { HandleEnd } from '../record/ledger.ts';

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
  readonly #said = new LRUCache<string, CutClose[]>({ max: DIRECTORIES });

  add(directoryId: string, close: CutClose): void {
    const said = this.#said.get(directoryId) ?? [];
    said.unshift(close);
    said.length = Math.min(said.length, LINES);
    this.#said.set(directoryId, said);
  }

  /** The last that was said of a file that has this path. */
  of(directoryId: string, path: FilePath): CutClose | undefined {
    return this.#said.get(directoryId)?.find(({ start }) => mayBe(start, path));
  }

  /** What was said up to that moment has been looked for. */
  forget(directoryId: string, upTo: number): void {
    const left = (this.#said.get(directoryId) ?? []).filter(({ at }) => at > upTo);
    if (left.length > 0) this.#said.set(directoryId, left);
    else this.#said.delete(directoryId);
  }
}

function mayBe(start: string, path: FilePath): boolean {
  // The folders of a name can be spelled in many ways; its last component is what was cut, or hides the wording.
  const cut = start.lastIndexOf('/') + 1;
  const folder = filePath(`${start.slice(0, cut)}x`)?.slice(0, -1);
  if (folder === undefined || !path.startsWith(folder)) return false;
  const [name = ''] = path.slice(folder.length).split('/', 1);
  const said = start.slice(cut);
  return name.startsWith(said) || said.startsWith(`${name}${QUOTE}`);
}
