/**
 * Which handles sessions hold on files, as the log tells: who writes what, and since when.
 *
 * sshd logs an open before it tries it, so an entry may stand for a handle that never came to be. Such a one is marked
 * doubtful when sshd's refusal follows, and then no longer counts as somebody who writes.
 */
import type { Micros } from '../clock.ts';

export interface Handle {
  readonly pid: number;
  /** The name as sshd logs it at the close: the one it was opened with. Undefined when it was open before the log was. */
  readonly name: string | undefined;
  /** Where the file is now, below `files/`. Renames move it. */
  path: Buffer;
  /** Whether it was opened for writing. */
  readonly writes: boolean;
  /** Whether opening it may have made the file. */
  readonly creates: boolean;
  /** Whether opening it emptied the file. */
  readonly truncates: boolean;
  /** When it was opened; undefined when that was before the log. */
  readonly openedAt: Micros | undefined;
  /** Later handles have higher numbers. */
  readonly order: number;
  /** The server refused a write through it (a full disk): what it leaves is not what the client sent. */
  refused: boolean;
  /** The open seems to have failed. */
  doubtful: boolean;
}

/** How a handle that changed its file ended. */
export interface Verdict {
  readonly order: number;
  readonly complete: boolean;
  /** Bytes written through it, when it began with an empty file. */
  readonly size: number | undefined;
  /** When it was opened. */
  readonly openedAt: Micros | undefined;
}

/** A handle whose file was renamed, and where it was before. */
export interface Moved {
  readonly handle: Handle;
  readonly from: Buffer;
}

/** Refused opens that a session's list keeps, in case that they were not: nobody has to remember a million of them. */
const DOUBTFUL_LIMIT = 50;

/** sshd's complaint about a write shows that many bytes of a name (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;

export class OpenHandles {
  readonly #byPid = new Map<number, Handle[]>();
  readonly #verdicts = new Map<string, Verdict>();
  #order = 0;

  open(handle: Omit<Handle, 'order' | 'refused' | 'doubtful'>): void {
    const handles = this.#byPid.get(handle.pid) ?? [];
    handles.push({ ...handle, order: ++this.#order, refused: false, doubtful: false });
    this.#byPid.set(handle.pid, handles);
  }

  /** Takes the oldest handle of that session with that logged name, or else on that path, away and returns it. */
  close(pid: number, name: string, path: Buffer | undefined): Handle | undefined {
    const handles = this.#byPid.get(pid) ?? [];
    // One whose open was refused has nothing to close, as long as there is another.
    let index = handles.findIndex((handle) => handle.name === name && !handle.doubtful);
    if (index === -1) index = handles.findIndex((handle) => handle.name === name);
    if (index === -1 && path) {
      index = handles.findIndex((handle) => handle.name === undefined && handle.path.equals(path));
    }
    return index === -1 ? undefined : handles.splice(index, 1)[0];
  }

  ofSession(pid: number): readonly Handle[] {
    return this.#byPid.get(pid) ?? [];
  }

  /** Those of the given sessions that write the file. */
  writersOf(pids: Iterable<number>, path: Buffer): number[] {
    const writers: number[] = [];
    for (const pid of pids) {
      const writes = (handle: Handle): boolean => handle.writes && !handle.doubtful && handle.path.equals(path);
      if (this.ofSession(pid).some(writes)) writers.push(pid);
    }
    return writers;
  }

  /** A session is over; returns what it still held. */
  forget(pid: number): readonly Handle[] {
    const handles = this.ofSession(pid);
    this.#byPid.delete(pid);
    return handles;
  }

  /** A write through the session's handles that were opened with a name of this beginning was refused. */
  refuse(pid: number, start: string): void {
    for (const handle of this.ofSession(pid)) {
      // Of those that were open before the log was, the name is not known.
      const isMeant = handle.name === undefined || handle.name.slice(0, NAME_SHOWN) === start;
      if (handle.writes && isMeant) handle.refused = true;
    }
  }

  /** The newest handle of the session seems not to have come to be. */
  doubt(pid: number): void {
    const handles = this.#byPid.get(pid) ?? [];
    const newest = handles.at(-1);
    if (!newest) return;
    newest.doubtful = true;
    const doubtful = handles.filter((handle) => handle.doubtful);
    if (doubtful.length > DOUBTFUL_LIMIT)
      handles.splice(
        handles.findIndex((handle) => handle.doubtful),
        1,
      );
  }

  /** Files move below their handles when they, or a folder above them, are renamed. */
  moved(pids: Iterable<number>, from: Buffer, to: Buffer): Moved[] {
    const moved: Moved[] = [];
    const below = Buffer.concat([from, Buffer.from('/')]);
    for (const pid of pids) {
      for (const handle of this.ofSession(pid)) {
        if (!handle.path.equals(from) && !handle.path.subarray(0, below.length).equals(below)) continue;
        moved.push({ handle, from: handle.path });
        handle.path = Buffer.concat([to, handle.path.subarray(from.length)]);
      }
    }
    return moved;
  }

  /** Notes how one handle of a file ended. The newest one's word counts. */
  judge(file: string, verdict: Verdict): void {
    const earlier = this.#verdicts.get(file);
    if (!earlier || earlier.order <= verdict.order) this.#verdicts.set(file, verdict);
  }

  /** Takes the file's verdict away to act on it. */
  takeVerdict(file: string): Verdict | undefined {
    const verdict = this.#verdicts.get(file);
    this.#verdicts.delete(file);
    return verdict;
  }

  /** A file with a verdict was renamed while somebody still writes it. */
  moveVerdict(from: string, to: string): void {
    const verdict = this.takeVerdict(from);
    if (verdict) this.#verdicts.set(to, verdict);
  }
}
