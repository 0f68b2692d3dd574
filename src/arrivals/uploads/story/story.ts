/**
 * Turns the lines that sshd logs about one directory into operations, in order.
 *
 * sshd logs each request before it tries it, and afterwards only refusals. An open is trusted immediately: if sshd
 * refuses it, dropping the handle is harmless. A rename or a removal waits until its outcome is known, and
 * every later line of the directory waits behind it. So no operation is ever undone.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { askKernel } from '../../../foundation/base/errors.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { LineRecord, Observation } from '../log/journal-record.ts';
import type { HeldPath } from '../processes.ts';
import type { Found } from './directory.ts';
import type { LogEventOf } from '../log/log-line.ts';
import type { SessionNote } from '../record/transfer-history.ts';
import { untracked } from './alike.ts';
import { CutOffNames } from './cut-off-names.ts';
import { droppedAt, Handles, refuseWrites } from './handles.ts';
import { type ChangeOptions, PendingChange } from './pending-change.ts';
import { File, type Handle, type Kernel, type KeptSession, Session, type SessionStart, shownPath } from './sessions.ts';
import { isBelow, TrackedFiles } from './tracked-files.ts';
import type { Ending, Operation, Put, TrackedFile } from './operations.ts';

export interface StoryOptions {
  readonly directoryId: string;
  lstat(path: FilePath): (Observation & Found) | undefined;
  /** The files that the process has open for writing now, one for each descriptor; undefined if that cannot be asked. */
  heldBy(pid: number): readonly HeldPath[] | undefined;
  readonly isHeldBy: Kernel['isHeldBy'];
  /** Whether the process has ended. */
  isGone(pid: number): boolean;
  readonly timesHeldBy: Kernel['timesHeldBy'];
  isTemporary(path: FilePath): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
  /** Receives the operations, in order. */
  happened(operation: Operation): void;
  /** An upload ended after its file had lost its name. */
  homeless(end: Ending): void;
  /** An open of the file was most likely refused, and the kernel can tell whether it was. */
  doubted(file: File): void;
  /** The log has cut off the name in a close; `start` is the beginning of the name. */
  cutOff(start: string, end: Ending, session: Session): void;
  /** Requests a look at a path whose state is uncertain, in `inMs` ms. */
  look(path: FilePath, inMs: number): void;
  /** A file or folder was renamed: looks planned at or below `from` are needed at the new path too. */
  moved(from: FilePath, to: FilePath): void;
  /** Requests a comparison with the disk, because the log does not show what happened. */
  compare(): void;
  note(note: SessionNote): void;
  /** Files closed before this time may not have reached the disk, because the machine crashed afterwards. */
  readonly provenFrom: Micros;
}

/** A line that sshd logged in a session. */
export interface Line extends Pick<LineRecord, 'at' | 'pid' | 'event' | 'seen' | 'held' | 'alike' | 'refused'> {
  /** Whether no process before has read the line, and it was read so recently that the disk still shows what `seen` has, or more. */
  readonly isFresh: boolean;
}

/**
 * @param now the files that the session has open for writing now.
 * @param at the time of the comparison.
 */
export type HandleComparison = (now: readonly HeldPath[], at: Micros) => void;

export class Story {
  readonly #options: StoryOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #files: TrackedFiles;
  readonly #handles: Handles;
  readonly #cutOff: CutOffNames;
  readonly #queue: Line[] = [];
  /** The line that is being interpreted. */
  #line: Line | undefined;
  #pending: PendingChange | undefined;
  /** Lines added so far, and lines interpreted so far. */
  #taken = 0;
  #read = 0;

  constructor(options: StoryOptions) {
    this.#options = options;
    this.#files = new TrackedFiles(options);
    const asked = {
      ...options,
      observe: (path: FilePath) => this.#observe(path),
      sessionOf: (pid: number) => this.#sessions.get(pid),
    };
    this.#handles = new Handles(asked, this.#files);
    const isFresh = (): boolean => this.#line?.isFresh ?? true;
    const sessions = () => this.#sessions.values();
    this.#cutOff = new CutOffNames({ ...asked, isFresh, sessions }, this.#files, this.#handles);
  }

  /**
   * Starts a session.
   * @param at when that was logged.
   * @param writing the files that the kernel says it has open for writing, if its beginning was not logged.
   */
  begin(start: SessionStart, at: Micros, writing: readonly HeldPath[] = []): void {
    const { by, openedAt } = start;
    this.end(by.pid, at, openedAt === undefined ? 'gap' : 'killed');
    const session = new Session(start);
    this.#sessions.set(by.pid, session);
    for (const file of writing) this.#handles.openUnheard(session, file);
    if (openedAt !== undefined) {
      this.#options.note({ event: 'session-opened', directoryId: this.#options.directoryId, at: openedAt, by });
    }
  }

  /** The state of the sessions, for a later process to restore. */
  kept(): KeptSession[] {
    return [...this.#sessions.values()].map((session) => session.kept());
  }

  /** Restores sessions that an earlier process saved with `kept`. */
  restore(kept: readonly KeptSession[]): void {
    for (const { handles, isDoubted, lastAt, ...start } of kept) {
      const session = new Session(start);
      session.lastAt = lastAt ?? start.openedAt;
      // `kept` saves neither.
      session.hasTemporary = true;
      session.hasSetCutOff = true;
      this.#sessions.set(start.by.pid, session);
      for (const { writes, now, isRefused, isDoubted: isHandleDoubted, ...opening } of handles) {
        const path = now ?? opening.path;
        const file = writes ? (now === null ? this.#files.nameless(path) : this.#files.ensure(path)) : undefined;
        const handle = this.#handles.track(session, { isExclusive: false, ...opening, path }, file);
        handle.isRefused = isRefused;
        if (isHandleDoubted === true) this.#handles.trackDoubted(handle);
      }
      if (isDoubted) session.doubtedUpTo = this.#handles.newest;
    }
  }

  /**
   * Begins to compare a live session's handles with the files that the kernel says it has open for writing (`before`).
   * Returns a function that completes the comparison. Call it when every line that sshd logged before this call has
   * been read: a close or an open that is missing then was lost. A session goes on meanwhile, and its latest lines are unread.
   */
  compareHandles(pid: number, before: readonly HeldPath[]): HandleComparison {
    const session = this.#sessions.get(pid);
    const tracked = new Map(session?.all().map((handle) => [handle, handle.file?.path]));
    return (now, at) => {
      if (!session || this.#sessions.get(pid) !== session) return;
      for (const handle of session.all()) {
        const path = handle.file?.path;
        if (path === undefined || !tracked.has(handle)) continue;
        const isIt = (file: HeldPath): boolean =>
          file.path === path || file.path === tracked.get(handle) || file.inode === handle.inode;
        if (before.some(isIt) || now.some(isIt)) continue;
        session.forget(handle);
        this.#handles.gone(handle, at);
        this.#options.look(path, 0);
      }
      const doubted = session.doubted().map((handle) => handle.inode ?? handle.doubtedInode);
      const earlier = new Set(before.map(({ inode }) => inode));
      const lasting = now.filter(
        ({ inode, path }) => earlier.has(inode) && !doubted.includes(inode) && this.#options.lstat(path)?.ino === inode,
      );
      this.#cutOff.shown(session, lasting);
      for (const file of untracked(session, lasting)) {
        if (!session.all().some((handle) => handle.file?.path === file.path)) this.#handles.openUnheard(session, file);
      }
    };
  }

  /** Puts a line at the end of the queue. */
  add(line: Line): void {
    this.#taken += 1;
    this.#queue.push(line);
    const waiting = this.#pending;
    if (waiting?.change.session.by.pid === line.pid) waiting.answer ??= line;
  }

  /**
   * Interprets up to `limit` lines. Returns when to continue, by the monotonic clock in ms, or undefined when no line
   * is left.
   */
  advance(limit: number): number | undefined {
    const lines = this.#readOn(limit);
    const asked = this.#cutOff.askAgain();
    return lines === undefined || asked === undefined ? (lines ?? asked) : Math.min(lines, asked);
  }

  #readOn(limit: number): number | undefined {
    let read = 0;
    while (read < limit) {
      if (this.#pending && !this.#resolve(this.#pending)) return this.#pending.nextLook;
      const line = this.#queue[read];
      if (!line) break;
      read += 1;
      this.#read += 1;
      this.#line = line;
      this.#interpret(line);
      this.#line = undefined;
      // The session's next line may be in the queue already.
      const waiting = this.#pending;
      if (waiting) {
        this.#queue.splice(0, read);
        limit -= read;
        read = 0;
        waiting.answer = this.#queue.find(({ pid }) => pid === waiting.change.session.by.pid);
      }
    }
    this.#queue.splice(0, read);
    if (this.#pending) return this.#pending.nextLook;
    return this.#queue.length > 0 ? this.#options.monotonic() : undefined;
  }

  /** The number of the line that was added last. `hasRead` says whether it has been interpreted. */
  get taken(): number {
    return this.#taken;
  }

  hasRead(line: number): boolean {
    return this.#read >= line && !this.#pending;
  }

  /** How many lines wait, including a rename or removal whose outcome is unknown. */
  get waiting(): number {
    return this.#queue.length + this.#cutOff.waiting + (this.#pending ? 1 : 0);
  }

  /** The live sessions. */
  sessions(): readonly SessionStart[] {
    return [...this.#sessions.values()];
  }

  /**
   * Ends a session. `how`: sshd logged the end (`logged`), the process died without logging it (`killed`), or its last
   * requests were not logged (`gap`).
   */
  end(pid: number, at: Micros, how: 'logged' | 'killed' | 'gap'): void {
    const session = this.#sessions.get(pid);
    if (!session) return;
    this.#sessions.delete(pid);
    const { by } = session;
    const { directoryId, note, happened, look } = this.#options;
    this.#cutOff.end(session, how === 'logged');
    for (const handle of session.all()) {
      if (!handle.file) {
        note({ event: 'download-dropped', directoryId, at, by, path: handle.path, openedAt: handle.openedAt });
        continue;
      }
      // sshd logs the close of every handle before the end of the session. If a handle is left, the line of its close was lost.
      const isDropped = how === 'killed' && !session.ahead.has(handle);
      const { path } = handle.file;
      if (isDropped) this.#handles.ended(handle, droppedAt(session, handle, at));
      else this.#handles.gone(handle, at);
      if (!isDropped && path !== undefined) look(path, 0);
    }
    for (const handle of session.doubted()) {
      // If a process that was killed had it open after all, its file is cut off.
      const inode = handle.inode ?? handle.doubtedInode;
      if (how === 'killed' && inode !== undefined) {
        if (handle.file) handle.file.mayBeCutOff = true;
        this.#options.homeless(droppedAt(session, { ...handle, inode }, at));
      }
      this.#handles.disbelieve([handle]);
    }
    session.reads.end().forEach(note);
    // A later process may notice the same death. It must get the same time, so that the session's files are announced
    // only once.
    const endedAt = how === 'logged' ? at : (session.lastAt ?? at);
    if (how === 'killed') this.#cutOff.drop(session, at);
    if (session.hasTemporary) happened({ kind: 'end', by, at: endedAt, hasLostName: session.lostNameAt !== undefined });
    if (session.isDoubtful) this.#options.compare();
    note({ event: 'session-closed', directoryId, at, by, openedAt: session.openedAt });
  }

  fileAt(path: FilePath): File | undefined {
    return this.#files.at(path);
  }

  /** Whether a client may have set the times or the size of that file a moment ago. */
  wasSet(path: FilePath): boolean {
    return this.#files.wasSet(path);
  }

  pids(): number[] {
    return [...this.#sessions.keys()];
  }

  has(pid: number): boolean {
    return this.#sessions.has(pid);
  }

  /** Whether that session is live. `openedAt` is compared too, because another session may have the pid by now. */
  isLive({ by, openedAt }: SessionStart): boolean {
    const session = this.#sessions.get(by.pid);
    return session !== undefined && session.openedAt === openedAt;
  }

  /** Notes that the session has left an upload under a temporary name. Returns false when the session is over. */
  leavesTemporary(pid: number): boolean {
    const session = this.#sessions.get(pid);
    if (session) session.hasTemporary = true;
    return session !== undefined;
  }

  /**
   * Whether a session that may have opened the file holds it, or has died: its end is not known yet. It has the file open as far as
   * is known, has a file open that was not seen, or has opened a name like that, which the log has cut off.
   */
  mayHold(path: FilePath, inode: number): boolean {
    const mayBeIt = (each: Handle): boolean => each.file !== undefined && (each.inode ?? inode) === inode;
    const mayHave = (session: Session): boolean => session.all().some(mayBeIt) || session.doubted().some(mayBeIt);
    // The kernel is asked first: a session may have thousands of names to compare.
    return this.#sessions
      .values()
      .filter((session) => this.#options.isHeldBy(session.by.pid, inode))
      .some((session) => mayHave(session) || session.mayHaveOpened(path));
  }

  /** A session writes the file at the path, as the kernel says. */
  shown(path: FilePath, inode: number): void {
    // The log says so, too. There may be thousands of such files.
    if (this.#files.at(path)) return;
    for (const session of this.#sessions.values()) this.#handles.shown(session, path, inode);
  }

  /**
   * Whether a session holds the file now, or has opened a name like that, which the log has cut off, and has died. The line of
   * its open may not have been read yet.
   */
  mayWrite(path: FilePath, inode: number): boolean {
    return this.#sessions.values().some((session) => {
      const held = this.#options.heldBy(session.by.pid);
      return held ? held.some((each) => each.inode === inode) : session.mayHaveOpened(path);
    });
  }

  /**
   * Asks the kernel about a file's doubted handles. Call the function that it returns once every line that was logged before
   * has been read: the opens of handles that were not held then were refused.
   * @param isLast whether a handle that the kernel cannot be asked about, since its process has died or its file has not been
   *   seen, counts as not held.
   */
  askAbout(file: TrackedFile, isLast: boolean): () => void {
    if (!(file instanceof File)) return () => undefined;
    const there = file.path === undefined ? undefined : this.#options.lstat(file.path);
    // When the refusal was read, the file may have been renamed already.
    if (there) for (const handle of file.doubted) handle.doubtedInode ??= handle.inode ?? there.ino;
    const { newest } = this.#handles;
    const unheld = file.askForDoubted((handle) => this.#othersOf(handle, newest));
    const isUnknown = ({ session, doubtedInode }: Handle): boolean =>
      doubtedInode === undefined || this.#options.heldBy(session.by.pid) === undefined;
    const unknown = isLast ? [] : [...file.doubted].filter(isUnknown);
    return () => {
      const refused = unheld().filter((handle) => !unknown.includes(handle) && !this.#mayHoldReplaced(handle));
      this.#handles.disbelieve(refused);
    };
  }

  /**
   * How many descriptors of the file that a doubted handle may have opened are those of other handles of its session. That file
   * may be a later one, under which name the kernel shows it.
   */
  #othersOf({ session, file, inode, doubtedInode = inode }: Handle, newest: number): number {
    const held = this.#options.heldBy(session.by.pid)?.filter((each) => each.inode === doubtedInode) ?? [];
    const isIt = (other: Handle): boolean =>
      other.file === file ||
      ((other.inode ?? doubtedInode) === doubtedInode && held.some(({ path }) => path === shownPath(other)));
    return session.all().filter((other) => other.file && other.order <= newest && isIt(other)).length;
  }

  /** Whether the handle's process holds a file that has lost the handle's name, and no other handle is known to be that. */
  #mayHoldReplaced({ session, path, file }: Handle): boolean {
    const lost = `${path} (deleted)`;
    const all = session.all().filter((other) => other.file);
    // What another handle has opened under that name is none of this file.
    const ofOthers = [...all, ...session.doubted()].filter((other) => other.file !== file).map(({ inode }) => inode);
    const held = this.#options.heldBy(session.by.pid)?.filter((each) => each.path === lost) ?? [];
    const mayBeIts = ({ inode }: { readonly inode: number | undefined }): boolean =>
      inode === undefined || !ofOthers.includes(inode);
    return held.filter(mayBeIts).length > all.filter((other) => shownPath(other) === lost && mayBeIts(other)).length;
  }

  /** The doubted handles of a put's file exist: the file is still being written, so it is no put yet. */
  believe(put: Put): void {
    if (put.file instanceof File) this.#handles.believe(put.file, put);
    this.applied(put);
  }

  /** A look at that path is complete: forgets the file if it is no longer needed. */
  lookedAt(path: FilePath): void {
    const file = this.#files.at(path);
    if (file) this.#files.forget(file);
  }

  /** A put has been applied. */
  applied(put: Put): void {
    const { file } = put;
    if (!(file instanceof File)) return;
    file.puts.splice(file.puts.indexOf(put), 1);
    this.#files.forget(file);
  }

  /** Whether nothing is left (session, file or line), so that the story can be dropped. */
  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#files.size === 0 && this.#queue.length === 0 && !this.#pending;
  }

  #interpret({ at, pid, event, refused }: Line): void {
    if (event.kind === 'session-closed') return this.end(pid, at, 'logged');
    // A session that was taken for dead goes on.
    if (!this.#sessions.has(pid)) this.begin({ by: { pid, address: '' }, openedAt: undefined, born: undefined }, at);
    const session = this.#sessions.get(pid);
    if (!session) return;
    session.lastAt = at;
    const { directoryId, note } = this.#options;
    if (refused) note({ event: 'refused', directoryId, at, by: session.by, ...refused });
    const { lastRequest } = session;
    session.lastRequest = undefined;
    switch (event.kind) {
      case 'open': {
        const handle = this.#handles.open(session, event, at);
        session.lastRequest = handle && { kind: 'open', handle };
        break;
      }
      case 'make-folder':
      case 'remove-folder':
        session.lastRequest = { kind: 'change', at };
        break;
      case 'close':
        this.#handles.close(session, event, at);
        break;
      case 'rename': {
        const [from, to] = [filePath(event.from), filePath(event.to)];
        if (from === undefined || to === undefined) break;
        if (to === from || isBelow(to, from)) {
          // A rename of a path to itself does nothing, or is refused because there is a file.
          if (to !== from || !event.replaces) session.lastRequest = { kind: 'refused' };
        } else this.#await(session, { from, to, replaces: event.replaces }, at);
        break;
      }
      case 'remove': {
        const path = filePath(event.name);
        if (path !== undefined) this.#await(session, { from: path, to: undefined, replaces: false }, at);
        break;
      }
      case 'set':
        session.lastRequest = this.#handles.set(session, event, at, this.#line?.seen?.[0]);
        break;
      case 'unclear':
        this.#unclear(session, event, at);
        break;
      case 'status':
        this.#handles.refused(session, lastRequest, event.text, this.#line?.seen);
        break;
      case 'write-refused':
        refuseWrites(session, event.name);
        session.lastRequest = { kind: 'refused' };
        break;
      case 'complaint':
        session.lastRequest = { kind: 'refused' };
        break;
      case 'session-opened':
      case 'other':
        break;
    }
  }

  /**
   * The file at the path that the current line names. While the line is fresh, this is the file that is there now,
   * since that shows more; otherwise the file that was there when the line was read.
   */
  #observe(path: FilePath): Observation | undefined {
    const { isFresh = true, seen } = this.#line ?? {};
    const [then] = seen ?? [];
    const now = isFresh || !seen ? askKernel(() => this.#options.lstat(path)) : undefined;
    // Another file has taken the name since the line was read.
    if (then && now && now.ino !== then.ino) return then;
    return now ?? then ?? undefined;
  }

  /** Interprets a line whose name the log has cut off. */
  #unclear(session: Session, { about, start }: LogEventOf<'unclear'>, at: Micros): void {
    const { held, alike } = this.#line ?? {};
    switch (about) {
      case 'open':
        return this.#cutOff.open(session, start, at, held);
      case 'close':
      case 'forced close':
        return this.#cutOff.close(session, { start, at, isForced: about === 'forced close', held, alike });
      case 'set':
        this.#cutOff.touched(session, start, at, alike);
        this.#cutOff.set(session, start, alike);
        break;
      case 'rename':
        this.#cutOff.touched(session, start, at, alike);
        this.#cutOff.renamed(start, alike);
        session.lostNameAt = at;
        break;
      case 'remove':
        break;
    }
    session.lastRequest = { kind: 'unclear' };
    this.#options.compare();
  }

  #await(session: Session, paths: Pick<ChangeOptions, 'from' | 'to' | 'replaces'>, at: Micros): void {
    const change = { ...paths, session, at, seen: this.#line?.seen };
    this.#pending = new PendingChange(change, this.#options.monotonic());
  }

  /** Completes the change if its outcome is known by now. Returns whether it is. */
  #resolve(pending: PendingChange): boolean {
    const { lstat, look, monotonic } = this.#options;
    const verdict = pending.verdict(this.#files, lstat, monotonic());
    if (verdict === 'pending') return false;
    this.#pending = undefined;
    const { session, from, to, at } = pending.change;
    session.isDoubtful ||= verdict === 'doubtful';
    const wasRefused = verdict === 'refused' || verdict === 'doubtful';
    session.lastRequest = { kind: 'change', at };
    if (wasRefused) {
      look(from, 0);
      if (to !== undefined) look(to, 0);
    } else this.#done(pending.change, verdict === 'certain');
    return true;
  }

  #done({ from, to, session, at, seen }: ChangeOptions, isCertain: boolean): void {
    const { by } = session;
    const { happened, moved } = this.#options;
    this.#handles.losesName(to ?? from);
    if (to === undefined) {
      this.#files.loseName(from);
      return happened({ kind: 'remove', path: from, by, at });
    }
    this.#handles.correct(session, [from, to], () => seen?.[1]);
    const { inode, hasOpenWriters: isOpen = false } = this.#files.at(from) ?? {};
    this.#files.move(from, to);
    this.#cutOff.moved(this.#sessions.values(), from, to);
    happened({ kind: 'move', from, to, by, at, isCertain, inode, isOpen });
    moved(from, to);
  }
}
