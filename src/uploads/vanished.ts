/**
 * Uploads that were closed and then moved on before berth looked. The next lines of the log say where they went; what
 * was removed is forgotten. In memory only: after a crash the scan finds the file where it is.
 */
import type { Closed } from './change.ts';

export class Vanished {
  #uploads = new Map<string, Closed>();

  /** `path`: where it was last heard of, when that is not where it was closed. */
  add(upload: Closed, path: Buffer = upload.path): void {
    this.#uploads.set(key(upload.directoryId, path), upload);
  }

  has(directoryId: string, path: Buffer): boolean {
    return this.#uploads.has(key(directoryId, path));
  }

  take(directoryId: string, path: Buffer): Closed | undefined {
    const upload = this.#uploads.get(key(directoryId, path));
    this.#uploads.delete(key(directoryId, path));
    return upload;
  }

  /** Remembers what is here now; the function that it returns brings it back, for a transaction that failed. */
  save(): () => void {
    const saved = new Map(this.#uploads);
    return () => (this.#uploads = saved);
  }

  /** The session that closed them is over: nothing more will be said of them. */
  forget(pid: number): void {
    for (const [place, upload] of this.#uploads) if (upload.pid === pid) this.#uploads.delete(place);
  }
}

function key(directoryId: string, path: Buffer): string {
  return `${directoryId}/${path.toString('latin1')}`;
}
