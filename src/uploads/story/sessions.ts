/** The SFTP sessions of one directory with their handles, and the files that these write. */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { Reads } from '../log/reads.ts';
import type { BySession, Ending, Put, TrackedFile } from './operations.ts';

/** Opens that seem to have failed and are remembered of one session, in case that they did not. */
const DOUBTFUL_LIMIT = 50;

/** For so long after a session was taken up, the log may tell of what the kernel has told of it already, in ms. */
const ADOPTION_MS = 5000;

/** A handle that a session has opened. */
export interface Handle {
  readonly session: Session;
  /** The name it was opened with, which sshd logs again at the close. Undefined when its open was not heard. */
  readonly name: string | undefined;
  /** Where the file was when it was opened. */
  readonly path: FilePath;
  /** What it writes; undefined when it only reads. */
  readonly file: File | undefined;
  /** Whether opening it may have made the file. */
  readonly creates: boolean;
  /** Whether opening it emptied the file. */
  readonly truncates: boolean;
  /** Undefined when that was before the log. */
  readonly openedAt: Micros | undefined;
  /** Later handles have higher numbers. */
  readonly order: number;
  readonly inode: number | undefined;
  /** The server refused a write through it (a full disk): it does not leave what the client sent. */
  isRefused: boolean;
  /** The open seems to have failed. */
  isDoubtful: boolean;
}

/** How a session began. */
export interface SessionStart {
  readonly by: BySession;
  /** Undefined when that was before the log. */
  readonly openedAt: Micros | undefined;
  /** When its process began, in clock ticks since the boot; undefined when nobody looked. */
  readonly born: string | undefined;
}

export interface SessionOf extends SessionStart {
  readonly jail: Jail;
}

/** A handle that a session had open when the journal was compacted. */
type KeptHandle = Omit<Handle, 'file' | 'session' | 'order'> & {
  /** Whether it writes, and where its file is by now: null when it has no name any more. */
  readonly writes: boolean;
  readonly now: FilePath | null;
};

/** A session as it was when the journal was compacted. */
export interface KeptSession extends SessionStart {
  readonly isDoubted: boolean;
  /** An earlier berth did not keep it. */
  readonly lastAt?: Micros | undefined;
  readonly handles: readonly KeptHandle[];
}

export class Session {
  readonly by: BySession;
  readonly openedAt: Micros | undefined;
  readonly born: string | undefined;
  /** What it asked for last, which a refusal may answer: a handle, something else, or nothing that is logged. */
  last: Handle | 'other' | undefined;
  /** When its last line was read. */
  lastAt: Micros | undefined;
  /** sshd has said why it will refuse the request that it refuses next. */
  isComplaining = false;
  /** A rename or a removal seems to have been refused: names may be wrong. */
  isDoubtful = false;
  /** It left an upload under a temporary name. */
  hasTemporary = false;
  /** A write through a handle up to this order may have been refused without a word. */
  doubtedUpTo = 0;
  readonly reads = new Reads();
  /** By the name that sshd logs, oldest first; '' for those that were open before the log was. */
  readonly #handles = new Map<string, Handle[]>();
  readonly #doubtful: Handle[] = [];
  readonly #since = performance.now();

  constructor({ by, openedAt, born }: SessionStart) {
    this.by = by;
    this.openedAt = openedAt;
    this.lastAt = openedAt;
    this.born = born;
  }

  /** What a later process has to know to go on with what it says next. */
  kept(): KeptSession {
    const handles = this.all().map(({ file, session: _session, order: _order, ...handle }): KeptHandle => {
      return { ...handle, writes: file !== undefined, now: file ? (file.path ?? null) : handle.path };
    });
    const { by, openedAt, born, lastAt } = this;
    return { by, openedAt, born, lastAt, isDoubted: this.doubtedUpTo > 0, handles };
  }

  add(handle: Handle): void {
    const key = handle.name ?? '';
    const same = this.#handles.get(key);
    if (same) same.push(handle);
    else this.#handles.set(key, [handle]);
  }

  /** The handles that were opened with that name. */
  opened(name: string): readonly Handle[] {
    return this.#handles.get(name) ?? [];
  }

  /** The handles whose open was not heard. */
  openBefore(): readonly Handle[] {
    return this.opened('');
  }

  /** Whether the log may yet tell of handles that the kernel has told of. */
  isNew(now: number): boolean {
    return now - this.#since <= ADOPTION_MS;
  }

  /** Removes the handle that a close names. One whose open seems to have failed comes last. */
  take(name: string, path: FilePath): Handle | undefined {
    const same = this.opened(name);
    const certain = same.filter(({ isDoubtful }) => !isDoubtful);
    // Of several the one whose file still has that name: the other's was replaced.
    const meant = certain.find(({ file }) => file?.path === path) ?? certain[0] ?? same[0];
    const found = meant ?? this.openBefore().find((handle) => handle.file?.path === path);
    if (found) this.forget(found);
    return found;
  }

  forget(handle: Handle): void {
    const key = handle.name ?? '';
    const left = this.opened(key).filter((other) => other !== handle);
    if (left.length > 0) this.#handles.set(key, left);
    else this.#handles.delete(key);
  }

  /** The open seems to have failed. Returns a handle that need not be remembered any longer. */
  doubt(handle: Handle): Handle | undefined {
    handle.isDoubtful = true;
    this.#doubtful.push(handle);
    return this.#doubtful.length > DOUBTFUL_LIMIT ? this.#doubtful.shift() : undefined;
  }

  all(): Handle[] {
    return [...this.#handles.values()].flat();
  }
}

/** What a file asks. */
export interface Kernel {
  /** Whether that process writes that file, or died and cannot be asked. */
  isHeldBy(pid: number, inode: number): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
}

export class File implements TrackedFile {
  /** How long after a client set times or a size their change may show, in ms. */
  static readonly SET_SHOWS_MS = 3000;

  path: FilePath | undefined;
  readonly writers = new Set<Handle>();
  /** How the newest handle ended so far, while others still write. */
  newestEnd: Ending | undefined;
  readonly puts: Put[] = [];
  inode: number | undefined;
  /** When a client last set its times or size, by the monotonic clock in ms. */
  setAt = Number.NEGATIVE_INFINITY;
  readonly #kernel: Kernel;

  constructor(
    path: FilePath | undefined,
    kernel: { isHeldBy(pid: number, inode: number): boolean; monotonic(): number },
  ) {
    this.path = path;
    this.#kernel = kernel;
  }

  get wasSet(): boolean {
    return this.#kernel.monotonic() - this.setAt < File.SET_SHOWS_MS;
  }

  /** A handle whose open is in doubt counts when the kernel knows it. */
  hasOpenWriters(): boolean {
    for (const { isDoubtful, session, inode } of this.writers) {
      if (!isDoubtful || (inode !== undefined && this.#kernel.isHeldBy(session.by.pid, inode))) return true;
    }
    return false;
  }

  isHeld(inode: number): boolean {
    return [...this.writers].some(({ session }) => this.#kernel.isHeldBy(session.by.pid, inode));
  }

  /** Whether the log tells more of it than that its times were set. */
  get isKnown(): boolean {
    return this.writers.size > 0 || this.puts.length > 0;
  }

  get isNeeded(): boolean {
    return this.isKnown || this.wasSet;
  }
}
