/** The SFTP sessions of one directory, their handles, and the files that these handles write. */
import type { Micros } from '../../../foundation/base/clock.ts';
import { beginsLike, type FilePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { Reads } from '../log/reads.ts';
import type { FileAlike } from '../log/journal-record.ts';
import type { HeldPath } from '../processes.ts';
import { untracked } from './alike.ts';
import type { BySession, Ending, Put, Resize, TrackedFile } from './operations.ts';

/** How long after a session was adopted the log may still report opens that the kernel has already shown, in ms. */
const ADOPTION_MS = 5000;

/** How long after a client set a file's times or size a look may come across the change, in ms. */
export const SET_SHOWS_MS = 3000;

/** How many doubted handles of a session are remembered. */
const DOUBTED = 100;

/** A handle that a session has opened. */
export interface Handle {
  readonly session: Session;
  /** The name in the open request. sshd logs it again at the close. Undefined when the open was not logged. */
  readonly name: string | undefined;
  /** The path of the file when it was opened. */
  readonly path: FilePath;
  /** The file that the handle writes; undefined for a handle that only reads. */
  readonly file: File | undefined;
  /** Whether the open may have created the file. */
  readonly creates: boolean;
  /** Whether the file was empty once it was open. */
  readonly truncates: boolean;
  /** Whether the open succeeds only if it makes the file. */
  readonly isExclusive: boolean;
  /** Undefined when the open was not logged. */
  readonly openedAt: Micros | undefined;
  /** Later handles have higher numbers. */
  readonly order: number;
  inode: number | undefined;
  /** When the file with that inode was created, in ms. Undefined where it is not known. */
  bornMs?: number | undefined;
  /** Of a doubted handle: the file that was at its path when the refusal was read. It may be a later one. */
  doubtedInode?: number;
  /** Of a doubted handle: the latest put of its file, which was none if the handle exists. */
  doubts?: Put;
  /**
   * The server refused a write through the handle (a full disk, for example), so the file lacks something that the
   * client sent.
   */
  isRefused: boolean;
  /** A write through the handle may have been cut short. Only set if its name is not known. */
  mayBeShort?: boolean;
  /** The size in bytes that a client has set since the open, so the bytes written need not explain it. */
  resizedTo?: number | undefined;
  /** That size may be another file's. */
  hasDoubtfulSize?: boolean;
  /** The kernel showed the handle after the line of the open had been read, so lines in between may be of a time before. */
  readonly isShownLater?: boolean;
}

/** How a session began. */
export interface SessionStart {
  readonly by: BySession;
  /** Undefined when the session's beginning was not logged. */
  readonly openedAt: Micros | undefined;
  /** When the session's process began, in clock ticks since the boot. Undefined when it is not known. */
  readonly born: string | undefined;
}

export interface SessionOf extends SessionStart {
  readonly jail: Jail;
}

/** A handle that a session had open when the journal was compacted. */
type KeptHandle = Omit<Handle, 'file' | 'session' | 'order' | 'isExclusive' | 'doubts'> & {
  /** Whether the open, or a write through the handle, was refused. Missing in state that an older version saved, as is the next. */
  readonly isDoubted?: boolean;
  readonly isExclusive?: boolean;
  /** Whether the handle writes, and the current path of its file: null when the file has lost its name. */
  readonly writes: boolean;
  readonly now: FilePath | null;
};

/** A session as it was when the journal was compacted. */
export interface KeptSession extends SessionStart {
  readonly isDoubted: boolean;
  /** Missing in state that an older version saved. */
  readonly lastAt?: Micros | undefined;
  readonly handles: readonly KeptHandle[];
}

/** A client has asked to rename a file whose name the log has cut off, or to set its times or size. */
export interface TouchedCutOff {
  readonly start: string;
  readonly at: Micros;
  /** When it had opened the latest file that is open, and that the name may mean: what was closed before is not meant. */
  readonly openedAt: Micros;
}

export class Session {
  readonly by: BySession;
  readonly openedAt: Micros | undefined;
  readonly born: string | undefined;
  /** What a refusal would answer: the session's last line. Undefined after a line that changes nothing. */
  lastRequest: LastRequest | undefined;
  /** When the session's last line was read. */
  lastAt: Micros | undefined;
  /** A rename or a removal was done or refused, and the log does not show which: names may be wrong. */
  isDoubtful = false;
  /** When the session last renamed in a line that the log has cut off: files may have other names than are known. */
  lostNameAt: Micros | undefined;
  /** Opens whose name the log has cut off, and of which the kernel does not show a file (yet). */
  readonly cutOff = new Set<CutOffOpen>();
  /** The latest of those that a refusal has followed: they are most likely refused, unless a close proves the opposite. */
  doubtedCutOff: readonly CutOffOpen[] = [];
  /**
   * Handles that the kernel showed before their open was read: as many closes as opens that name them have been read, but
   * they are not known to be closed.
   */
  readonly ahead = new Set<Handle>();
  /** Closes that the kernel has not shown yet: the descriptor may be open a moment longer than its close is logged. */
  parked: CutOffClose[] = [];
  /**
   * Closes whose lines were read when the process had ended: the session's end says whether it had closed all handles. `cut` is the
   * open that can be meant; undefined if it is one of several handles.
   */
  readonly late: { readonly close: CutOffClose; readonly cut: CutOffOpen | undefined }[] = [];
  /** The files with cut-off names that the process held when its last line about one was read, but those that were closed since. */
  held: readonly HeldPath[] = [];
  /** How many handles with cut-off names have been taken for broken off before the line about them. */
  forced = 0;
  /** The files of handles whose close the log has cut off, latest first, and its time: a client may set their times next. */
  readonly closedCutOff: { readonly path: FilePath; readonly at: Micros }[] = [];
  /** The session has set times or a size of a file whose name the log has cut off. */
  hasSetCutOff = false;
  /** The last file with a cut-off name that the session has asked to rename, or whose times or size it has asked to set. */
  touchedCutOff: TouchedCutOff | undefined;
  /** The session has left an upload under a temporary name. */
  hasTemporary = false;
  /** A write through any handle up to this order may have been refused without being logged. */
  doubtedUpTo = 0;
  readonly reads = new Reads();
  /** Handles whose open was most likely refused, oldest first. */
  readonly #doubted = new Set<Handle>();
  /** The handles by the name that sshd logs, oldest first. Those whose open was not logged are under ''. */
  readonly #handles = new Map<string, Handle[]>();
  readonly #since = performance.now();

  constructor({ by, openedAt, born }: SessionStart) {
    this.by = by;
    this.openedAt = openedAt;
    this.lastAt = openedAt;
    this.born = born;
  }

  /**
   * Whether a refusal certainly answers the session's last logged request. At our sshd's log level only requests about an
   * open handle are not logged, such as a write, and their refusal reads `Failure` (sftp-server.c). A session that began
   * before this berth listened may log less.
   */
  isAnswer(status: string): boolean {
    return status !== 'Failure' && this.openedAt !== undefined;
  }

  /** The state that a later process needs to continue with the session's next line. */
  kept(): KeptSession {
    const keep = ({ file, session: _session, order: _order, doubts: _doubts, ...handle }: Handle): KeptHandle => {
      return { ...handle, writes: file !== undefined, now: file ? (file.path ?? null) : handle.path };
    };
    const doubted = this.doubted().map((handle) => ({ ...keep(handle), isDoubted: true }));
    const handles = [...this.all().map(keep), ...doubted];
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

  /** The handles whose open was not logged. */
  openBefore(): readonly Handle[] {
    return this.opened('');
  }

  /** Whether the log may still report opens that the kernel has already shown. */
  isNew(now: number): boolean {
    return now - this.#since <= ADOPTION_MS;
  }

  /**
   * The handle that a close names; it may be a doubted one. A forced close takes the oldest that exists for certain, since sshd
   * closes the oldest first when a session ends.
   * @param ofSeveral which of several handles whose files have lost that name was closed.
   */
  closing(
    name: string,
    path: FilePath,
    isForced: boolean,
    ofSeveral: (handles: readonly Handle[]) => Handle | undefined,
  ): Handle | undefined {
    const same = this.opened(name);
    const doubted = this.doubted().filter((handle) => handle.name === name);
    // Prefer the handle whose file still has that name: the files of the others were replaced.
    const isNamed = ({ file }: Handle): boolean => !isForced && file?.path === path;
    return (
      same.find(isNamed) ??
      doubted.findLast((handle) => isNamed(handle) && !handle.isExclusive) ??
      (isForced || same.length + doubted.length < 2 ? undefined : ofSeveral([...same, ...doubted])) ??
      // A handle whose file was seen exists for certain.
      same.find(({ inode }) => inode !== undefined) ??
      same[0] ??
      this.openBefore().find((handle) => handle.file?.path === path) ??
      // Of several, the latest, since a client asks again after a refusal. sshd refuses an exclusive open if the file is there.
      (isForced ? (doubted.find(({ isExclusive }) => !isExclusive) ?? doubted[0]) : doubted.at(-1))
    );
  }

  /**
   * The open of a handle was most likely refused: the refusal may have answered a write through it instead. A close of
   * that name proves that it was not.
   */
  doubt(handle: Handle): void {
    this.forget(handle);
    const [oldest] = this.#doubted;
    if (oldest && this.#doubted.size >= DOUBTED) {
      this.#doubted.delete(oldest);
      oldest.file?.doubted.delete(oldest);
    }
    this.#doubted.add(handle);
  }

  /** As `doubt`, of an open whose file the kernel has not shown. `held`: what the process holds now, if it can be asked. */
  doubtCutOff(open: CutOffOpen, held: readonly HeldPath[] | undefined): void {
    open.isUnheld = held !== undefined && untracked(this, held).length === 0;
    if (this.cutOff.delete(open)) this.doubtedCutOff = [...this.doubtedCutOff, open].slice(-DOUBTED);
  }

  /** It is known whether the handle's open was refused. */
  undoubt(handle: Handle): void {
    this.#doubted.delete(handle);
  }

  doubted(): Handle[] {
    return [...this.#doubted];
  }

  forget(handle: Handle): void {
    this.ahead.delete(handle);
    const key = handle.name ?? '';
    const left = this.opened(key).filter((other) => other !== handle);
    if (left.length > 0) this.#handles.set(key, left);
    else this.#handles.delete(key);
  }

  /** The opens with a cut-off name whose file the process may still hold. */
  mayBeOpen(): CutOffOpen[] {
    return [...this.cutOff, ...this.doubtedCutOff.filter(({ isUnheld }) => isUnheld !== true)];
  }

  /** Whether the session may have opened the file under a name that the log has cut off, and may not have closed it. */
  mayHaveOpened(path: FilePath): boolean {
    const opens = [...this.mayBeOpen(), ...this.late.flatMap(({ cut }) => cut ?? [])];
    return opens.some((open) => beginsLike(path, beginningOf(open)));
  }

  all(): Handle[] {
    return [...this.#handles.values()].flat();
  }
}

/** An open whose name the log has cut off after `start`. */
export interface CutOffOpen {
  readonly start: string;
  readonly at: Micros;
  /** Once the folder has been renamed: its path now, followed by a `/`. */
  movedTo?: string;
  /** The server refused a write to a file whose name begins like that. */
  isRefused?: boolean;
  /** A write through it may have been cut short. */
  mayBeShort?: boolean;
  /** The kernel has shown that the process does not hold its file: it was refused, or closed. */
  isUnheld?: boolean;
}

/** The beginning of the file's path now. */
export function beginningOf({ start, movedTo }: CutOffOpen): string {
  return movedTo === undefined ? start : movedTo + start.slice(start.lastIndexOf('/') + 1);
}

/** A close whose name the log has cut off after `start`. */
export interface CutOffClose {
  readonly start: string;
  readonly at: Micros;
  /** The connection broke. */
  readonly isForced: boolean;
  /** What the process held when the line was read. */
  readonly held: readonly HeldPath[] | undefined;
  /** The files that the name may mean, as they were then. */
  readonly alike: readonly FileAlike[] | undefined;
}

/** A request that sshd may refuse. */
export type LastRequest =
  | { readonly kind: 'open'; readonly handle: Handle }
  | { readonly kind: 'open-cut-off'; readonly open: CutOffOpen }
  /** A size or times. `undo` takes back what was noted. */
  | { readonly kind: 'set'; undo(): void }
  /** A rename or a removal, or the making or the removal of a folder. */
  | { readonly kind: 'change'; readonly at: Micros }
  /** A rename, a removal, or a size or times, of a name that the log does not show for certain. */
  | { readonly kind: 'unclear' }
  /** A request that was refused for certain: sshd has complained about it, or the kernel never does it. */
  | { readonly kind: 'refused' };

/** Answers questions about open files. */
export interface Kernel {
  /** Whether the process has the file open for writing, or died and cannot be asked. */
  isHeldBy(pid: number, inode: number): boolean;
  /**
   * How often the process has the file open for writing: 0 once it has died. Undefined when it was asked shortly before
   * `since` (by the monotonic clock in ms), and cannot be asked again yet.
   */
  timesHeldBy(pid: number, inode: number, since: number): number | undefined;
  /** A monotonic clock, in ms. */
  monotonic(): number;
}

/** The path that the kernel shows for a handle that writes. */
export function shownPath({ path, file }: Handle): string {
  return file?.path ?? `${file?.lostPath ?? path} (deleted)`;
}

export class File implements TrackedFile {
  path: FilePath | undefined;
  /** The last path of a file that has lost its name, if that is known. */
  lostPath: FilePath | undefined;
  readonly writers = new Set<Handle>();
  /** While others still write: how the newest ended handle ended, with the time of the last end. */
  newestEnd: Ending | undefined;
  readonly puts: Put[] = [];
  readonly owed = new Set<Ending>();
  /** The inode at the last put. */
  #inode: number | undefined;
  /** When a client last set the file's times or size, by the monotonic clock in ms. */
  setAt = Number.NEGATIVE_INFINITY;
  /** Handles whose open was most likely refused. They do not count as writers. */
  readonly doubted = new Set<Handle>();
  /** When the last of these was added, by the monotonic clock in ms. */
  doubtedAt = Number.NEGATIVE_INFINITY;
  /** A process died that may have opened the file since its latest put. */
  mayBeCutOff = false;
  resized: Resize | undefined;
  readonly #kernel: Kernel;

  constructor(path: FilePath | undefined, kernel: Kernel) {
    this.path = path;
    this.#kernel = kernel;
  }

  get wasSet(): boolean {
    return this.#kernel.monotonic() - this.setAt < SET_SHOWS_MS;
  }

  get hasOpenWriters(): boolean {
    return this.writers.size > 0;
  }

  wasOpenAt(at: Micros): boolean {
    const isEarlier = ({ openedAt = -Infinity }: Pick<Ending, 'openedAt'>): boolean => openedAt <= at;
    return this.writers.values().some(isEarlier) || this.puts.some(({ end }) => end.at >= at && isEarlier(end));
  }

  /** Undefined when the file was not seen. */
  get inode(): number | undefined {
    return [...this.writers].findLast(({ inode }) => inode !== undefined)?.inode ?? this.#inode;
  }

  addPut(put: Put): void {
    this.#inode = put.end.inode ?? this.#inode;
    this.resized = undefined;
    this.mayBeCutOff = false;
    this.puts.push(put);
  }

  get isDoubted(): boolean {
    return this.doubted.size > 0;
  }

  /**
   * Asks the kernel how many descriptors of the file the processes of its doubted handles have. Returns a function for when
   * every line that was logged before has been read: it returns the doubted handles for which there is no descriptor.
   * @param othersOf how many of the descriptors are those of other handles.
   */
  askForDoubted(othersOf: (handle: Handle) => number): () => Handle[] {
    const asked = [...this.doubted].map((handle) => {
      const { session, inode, doubtedInode = inode } = handle;
      const isKnown = doubtedInode !== undefined;
      return { handle, times: isKnown ? this.#kernel.timesHeldBy(session.by.pid, doubtedInode, this.doubtedAt) : 0 };
    });
    return () =>
      asked
        .filter(({ handle, times }) => this.doubted.has(handle) && times !== undefined && times <= othersOf(handle))
        .map(({ handle }) => handle);
  }

  isHeld(inode: number): boolean {
    return [...this.writers].some(({ session }) => this.#kernel.isHeldBy(session.by.pid, inode));
  }

  /** Whether the log says more about the file than that its times or size were set. */
  get isKnown(): boolean {
    return this.puts.length > 0 || this.writers.size > 0;
  }

  get isNeeded(): boolean {
    return this.isKnown || this.wasSet || this.isDoubted || this.owed.size > 0;
  }
}
