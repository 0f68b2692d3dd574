/**
 * The story of one directory: lines of sshd's log in, operations out, in order.
 *
 * sshd logs a request before it tries it, and of the answers only refusals. An open is believed at once, since forgetting
 * a handle that never was costs nothing. A rename or a removal waits until it is known whether it was done, and every
 * later line of the directory waits behind it. So nothing is ever undone.
 */
import type { Micros } from '../../clock.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { Sighting } from '../log/journal-record.ts';
import { type LogEvent, readEvent } from '../log/log-line.ts';
import { TIMER_GRAIN } from '../record/file-stat.ts';
import type { SessionNote } from '../record/history.ts';
import { File, type Handle, type KeptSession, Session, type SessionStart } from './sessions.ts';
import type { Ending, Operation, Put } from './operations.ts';

/** When the disk is asked whether a rename or a removal has been done, in ms after its line; then the log is believed. */
const LOOKS_MS = [0, 2, 10, 50, 200, 700];

/** sshd's complaint about a write shows that many bytes of a name (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;

export interface StoryOptions {
  readonly directoryId: string;
  lstat(path: FilePath): Sighting | undefined;
  /** Whether that process writes that file, by the kernel's word, or died and cannot be asked. */
  isHeldBy(pid: number, inode: number): boolean;
  isTemporary(path: FilePath): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
  /** What happened, in order. */
  happened(operation: Operation): void;
  /** An upload ended whose file has no name. */
  homeless(end: Ending): void;
  /** The close of a name that the log has cut off. `start` is the beginning of the name. */
  cutOff(start: string, end: Ending): void;
  /** What is at that path is not certain; `inMs` from now it is time to look. */
  look(path: FilePath, inMs: number): void;
  /** Looks that are planned for `from`, or below it, are meant for `to`. */
  moved(from: FilePath, to: FilePath): void;
  /** Something happened that only a comparison with the disk can tell. */
  compare(): void;
  note(note: SessionNote): void;
  /** What was closed before may not have reached the disk: the machine went down since. */
  readonly provenFrom: Micros;
}

/** What sshd says in a session. */
export interface Line {
  readonly at: Micros;
  readonly pid: number;
  readonly text: string;
  /** What lay at the paths that it names when it was read: null for nothing. */
  readonly seen?: readonly (Sighting | null)[] | undefined;
  /** Whether it was read just now, so that the disk still shows the same or more. */
  readonly isFresh: boolean;
}

interface ReadLine extends Omit<Line, 'text'> {
  readonly event: LogEvent;
}

/** A file that a process writes. */
export interface HeldPath {
  readonly path: FilePath;
  readonly inode: number;
}

/** A rename or a removal that may yet be refused. */
interface Unresolved {
  readonly from: FilePath;
  /** Undefined for a removal. */
  readonly to: FilePath | undefined;
  readonly session: Session;
  readonly at: Micros;
  readonly since: number;
  looks: number;
  /** What lay at `from` and `to` when the line was read. */
  readonly seen: readonly (Sighting | null)[] | undefined;
  /** What the session said next, once that is in the queue. */
  answer: LogEvent | undefined;
}

type Event<K extends LogEvent['kind']> = LogEvent & { kind: K };

export class Story {
  readonly #options: StoryOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #files = new Map<FilePath, File>();
  readonly #queue: ReadLine[] = [];
  /** The line that is being read. */
  #line: ReadLine | undefined;
  #unresolved: Unresolved | undefined;
  /** Handles opened so far. */
  #opened = 0;
  /** Lines taken so far, and lines read. */
  #taken = 0;
  #read = 0;

  constructor(options: StoryOptions) {
    this.#options = options;
  }

  /** A session has begun, or was there before the log was: then `writing` is what the kernel says it has open. */
  begin(start: SessionStart, writing: readonly HeldPath[] = []): void {
    const { by, openedAt } = start;
    this.end(by.pid, openedAt ?? 0, openedAt === undefined ? 'unheard' : 'died');
    const session = new Session(start);
    this.#sessions.set(by.pid, session);
    for (const file of writing) this.#openUnheard(session, file);
    if (openedAt !== undefined) {
      this.#options.note({ event: 'session-opened', directoryId: this.#options.directoryId, at: openedAt, by });
    }
  }

  /** What a later process has to know of the sessions. */
  kept(): KeptSession[] {
    return [...this.#sessions.values()].map((session) => session.kept());
  }

  /** Takes up sessions as an earlier process has kept them. */
  restore(kept: readonly KeptSession[]): void {
    for (const { handles, isDoubted, ...start } of kept) {
      const session = new Session(start);
      session.hasTemporary = true; // it may have
      this.#sessions.set(start.by.pid, session);
      for (const { writes, now, isRefused, isDoubtful, ...opening } of handles) {
        const path = now ?? opening.path;
        const file = writes ? (now === null ? new File(undefined, this.#options) : this.#ensure(path)) : undefined;
        const handle = this.#track(session, { ...opening, path }, file);
        handle.isRefused = isRefused;
        if (isDoubtful) session.doubt(handle);
      }
      if (isDoubted) session.doubtedUpTo = this.#opened;
    }
  }

  /**
   * Compares the handles of a live session with the files that the kernel says it writes.
   * @param isGapless whether every open was heard, or is still to be.
   */
  checkHandles(pid: number, writing: readonly HeldPath[], isGapless: boolean): void {
    const session = this.#sessions.get(pid);
    if (!session) return;
    for (const handle of session.all()) {
      const path = handle.file?.path;
      if (path === undefined || handle.isDoubtful) continue;
      if (writing.some((file) => file.path === path || file.inode === handle.inode)) continue;
      session.forget(handle);
      this.#release(handle, undefined, 0);
      this.#options.look(path, 0);
    }
    if (isGapless) return;
    for (const file of writing) {
      if (!session.all().some((handle) => handle.file?.path === file.path)) this.#openUnheard(session, file);
    }
  }

  /** Puts a line at the end of the queue. */
  add({ text, ...line }: Line): void {
    const event = readEvent(text);
    this.#taken += 1;
    this.#queue.push({ ...line, event });
    const waiting = this.#unresolved;
    if (waiting && waiting.answer === undefined && waiting.session.by.pid === line.pid) waiting.answer = event;
  }

  /** Reads up to `limit` lines. Returns when to go on, by the monotonic clock; undefined when nothing is left. */
  advance(limit: number): number | undefined {
    let read = 0;
    while (read < limit) {
      if (this.#unresolved && !this.#resolve(this.#unresolved)) return this.#nextLook(this.#unresolved);
      const line = this.#queue[read];
      if (!line) break;
      read += 1;
      this.#read += 1;
      this.#line = line;
      this.#interpret(line);
      this.#line = undefined;
      // The answer may be in the queue already.
      const waiting = this.#unresolved;
      if (waiting) {
        this.#queue.splice(0, read);
        limit -= read;
        read = 0;
        waiting.answer = this.#queue.find(({ pid }) => pid === waiting.session.by.pid)?.event;
      }
    }
    this.#queue.splice(0, read);
    if (this.#unresolved) return this.#nextLook(this.#unresolved);
    return this.#queue.length > 0 ? this.#options.monotonic() : undefined;
  }

  /** The number of the last line that was taken; `hasRead` tells when it has been read. */
  get taken(): number {
    return this.#taken;
  }

  hasRead(line: number): boolean {
    return this.#read >= line && !this.#unresolved;
  }

  /** Lines that wait, with the one that is not resolved yet. */
  get waiting(): number {
    return this.#queue.length + (this.#unresolved ? 1 : 0);
  }

  /** The live sessions. */
  sessions(): readonly SessionStart[] {
    return [...this.#sessions.values()];
  }

  /** A process has gone. `how`: it said so, it died without a word, or nobody knows what it did last. */
  end(pid: number, at: Micros, how: 'said' | 'died' | 'unheard'): void {
    const session = this.#sessions.get(pid);
    if (!session) return;
    this.#sessions.delete(pid);
    const { by } = session;
    const { directoryId, note, happened, look } = this.#options;
    for (const handle of session.all()) {
      if (!handle.file) {
        if (!handle.isDoubtful) {
          note({ event: 'download-dropped', directoryId, at, by, path: handle.path, openedAt: handle.openedAt });
        }
        continue;
      }
      // sshd logs the end of every handle before it says that a session is over. What is left was not heard.
      const isDropped = how === 'died';
      const { path } = handle.file;
      this.#release(handle, isDropped ? droppedAt(session, handle, at) : undefined, at);
      if (!isDropped && path !== undefined) look(path, 0);
    }
    session.reads.end().forEach(note);
    if (session.hasTemporary) happened({ kind: 'end', by, at });
    if (session.isDoubtful) this.#options.compare();
    note({ event: 'session-closed', directoryId, at, by, openedAt: session.openedAt });
  }

  fileAt(path: FilePath): File | undefined {
    return this.#files.get(path);
  }

  pids(): number[] {
    return [...this.#sessions.keys()];
  }

  has(pid: number): boolean {
    return this.#sessions.has(pid);
  }

  /** The session has left an upload under a temporary name. False when it is over. */
  leavesTemporary(pid: number): boolean {
    const session = this.#sessions.get(pid);
    if (session) session.hasTemporary = true;
    return session !== undefined;
  }

  /** A look at that path is over: what is not needed is forgotten. */
  lookedAt(path: FilePath): void {
    const file = this.#files.get(path);
    if (file) this.#forget(file);
  }

  /** A put has been applied. */
  applied(put: Put): void {
    const { file } = put;
    if (!(file instanceof File)) return;
    file.puts.splice(file.puts.indexOf(put), 1);
    this.#forget(file);
  }

  /** Nothing is known that is worth keeping. */
  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#files.size === 0 && this.#queue.length === 0 && !this.#unresolved;
  }

  #interpret({ at, pid, event }: ReadLine): void {
    if (event.kind === 'session-closed') return this.end(pid, at, 'said');
    const session = this.#sessions.get(pid);
    if (!session) return;
    switch (event.kind) {
      case 'open':
        session.last = this.#open(session, event, at);
        break;
      case 'close':
        this.#close(session, event, at);
        session.last = undefined;
        break;
      case 'rename': {
        const [from, to] = [filePath(event.from), filePath(event.to)];
        session.last = 'other';
        // No kernel renames a file onto itself or below itself.
        if (from !== undefined && to !== undefined && to !== from && !isBelow(to, from)) {
          this.#await(session, from, to, at);
        }
        break;
      }
      case 'remove': {
        const path = filePath(event.name);
        session.last = 'other';
        if (path !== undefined) this.#await(session, path, undefined, at);
        break;
      }
      case 'set':
        this.#set(session, event);
        session.last = 'other';
        break;
      case 'unclear':
        this.#unclear(session, event, at);
        session.last = 'other';
        break;
      case 'status':
        this.#refused(session, event.text);
        session.last = undefined;
        break;
      case 'write-refused':
        refuseWrites(session, event.name);
        break;
      case 'complaint':
        break;
      case 'session-opened':
      case 'other':
        session.last = 'other';
        break;
    }
    session.isComplaining = event.kind === 'complaint' || event.kind === 'write-refused';
  }

  #open(session: Session, { name, flags }: Event<'open'>, at: Micros): Handle | 'other' {
    const path = filePath(name);
    if (path === undefined) return 'other';
    const creates = flags.has('CREATE');
    const truncates = flags.has('TRUNCATE');
    const opening = { name, path, openedAt: at, creates, truncates };
    if (!flags.has('WRITE') && !flags.has('APPEND')) return this.#track(session, { ...opening, inode: undefined });
    const inode = this.#inodeAt(path, truncates ? at : 0);
    const adopted = session.openBefore().find((handle) => handle.path === path && handle.inode === inode);
    if (adopted && session.isNew(this.#options.monotonic())) session.forget(adopted);
    const handle = this.#track(session, { ...opening, inode }, this.#ensure(path));
    if (adopted && !session.openBefore().includes(adopted)) this.#release(adopted, undefined, at);
    return handle;
  }

  #track(
    session: Session,
    opening: Pick<Handle, 'name' | 'path' | 'openedAt' | 'inode' | 'creates' | 'truncates'>,
    file?: File,
  ): Handle {
    this.#opened += 1;
    const handle: Handle = { ...opening, file, order: this.#opened, session, isRefused: false, isDoubtful: false };
    session.add(handle);
    file?.writers.add(handle);
    return handle;
  }

  /** The inode of the file that was opened, unless the path is another file's by now: one that was emptied is new. */
  #inodeAt(path: FilePath, emptiedAt: Micros): number | undefined {
    const seen = this.#sight(path);
    return seen && seen.mtimeMs * 1000 >= emptiedAt - TIMER_GRAIN ? seen.ino : undefined;
  }

  /** What lies at the path that the line names: by now when it is fresh, which shows more, or when it was read. */
  #sight(path: FilePath): Sighting | undefined {
    const { isFresh = true, seen } = this.#line ?? {};
    const now = isFresh || !seen ? this.#options.lstat(path) : undefined;
    return now ?? seen?.[0] ?? undefined;
  }

  #close(session: Session, event: Event<'close'>, at: Micros): void {
    const path = filePath(event.name);
    if (path === undefined) return;
    const { by } = session;
    const handle = session.take(event.name, path);
    // A handle that only reads says so also when the file was empty.
    if (event.read > 0 || (handle && !handle.file)) {
      const rows = session.reads.add({
        event: event.forced ? 'download-dropped' : 'downloaded',
        directoryId: this.#options.directoryId,
        at,
        by,
        path: handle?.file?.path ?? path,
        bytes: event.read,
        openedAt: handle?.openedAt,
      });
      rows.forEach(this.#options.note);
    }
    const unheard = event.written > 0 ? { path, inode: this.#inodeAt(path, 0) } : undefined;
    const writer = handle ?? (unheard && this.#openUnheard(session, unheard));
    if (!writer?.file) return;
    session.forget(writer);
    const isChanged = event.written > 0 || writer.creates || writer.truncates;
    this.#release(writer, isChanged ? this.#endOf(writer, event, at) : undefined, at);
  }

  #openUnheard(session: Session, { path, inode }: { path: FilePath; inode: number | undefined }): Handle {
    const opening = { name: undefined, path, openedAt: undefined, inode, creates: false, truncates: false };
    return this.#track(session, opening, this.#ensure(path));
  }

  #endOf(handle: Handle, { forced, written }: Event<'close'>, at: Micros): Ending {
    const { session, openedAt, truncates, inode, order } = handle;
    return {
      isComplete: !forced && !handle.isRefused,
      at,
      by: session.by,
      openedAt,
      bytes: truncates ? written : undefined,
      written,
      isUnwritten: written === 0 && !truncates,
      isDoubted: order <= session.doubtedUpTo,
      isUnproven: at < this.#options.provenFrom,
      inode,
      order,
    };
  }

  /** A handle has gone. `end` is undefined when it changed nothing. */
  #release(handle: Handle, end: Ending | undefined, at: Micros): void {
    const { file } = handle;
    if (!file) return;
    file.writers.delete(handle);
    if (end) {
      const before = file.newestEnd;
      const newest = before && before.order > end.order ? before : end;
      file.newestEnd = { ...newest, isUnwritten: end.isUnwritten && before?.isUnwritten !== false };
    }
    if (file.hasOpenWriters()) return;
    const { newestEnd } = file;
    file.newestEnd = undefined;
    // The file is as the upload left it that is yet to be recorded.
    const hasAddedNothing = newestEnd?.isUnwritten === true && file.puts.at(-1)?.end.isComplete === true;
    if (!newestEnd || hasAddedNothing) return this.#forget(file);
    const closed = { ...newestEnd, at: end?.at ?? at, by: end?.by ?? newestEnd.by };
    const { path } = file;
    if (path === undefined) {
      this.#forget(file);
      return this.#options.homeless(closed);
    }
    const put: Put = { kind: 'put', path, file, end: closed, isResized: false };
    file.inode = closed.inode ?? file.inode;
    file.puts.push(put);
    if (this.#options.isTemporary(path)) {
      const { session } = handle;
      const closer = closed.by.pid === session.by.pid ? session : this.#sessions.get(closed.by.pid);
      if (closer) closer.hasTemporary = true;
    }
    this.#options.happened(put);
  }

  #refused(session: Session, status: string): void {
    const { last } = session;
    if (session.isComplaining || last === 'other') return;
    if (last) {
      // Without a file there is no handle. With one, the kernel is asked when it matters.
      const isThere = this.#options.lstat(last.file?.path ?? last.path) !== undefined;
      const dropped = isThere && last.file ? session.doubt(last) : last;
      if (!dropped) return;
      session.forget(dropped);
      return this.#release(dropped, undefined, 0);
    }
    // The answer to something that is not logged. A write that found only some room gets this, without a complaint.
    if (status === 'Failure') session.doubtedUpTo = this.#opened;
  }

  #set(session: Session, { name, isSize }: Event<'set'>): void {
    const path = filePath(name);
    // It may be a handle's name, whose file has another by now.
    const files = new Set(session.opened(name).flatMap(({ file }) => (file ? [file] : [])));
    const there = path === undefined ? undefined : this.#files.get(path);
    if (there) files.add(there);
    if (path !== undefined && ![...files].some((file) => file.path === path)) files.add(this.#ensure(path));
    for (const file of files) {
      file.setAt = this.#options.monotonic();
      const last = file.puts.at(-1);
      if (last && isSize) last.isResized = true;
      if (file.path !== undefined && !file.hasOpenWriters()) {
        this.#options.look(file.path, 2);
        this.#options.look(file.path, File.SET_SHOWS_MS);
      }
    }
  }

  #unclear(session: Session, { about, start }: Event<'unclear'>, at: Micros): void {
    if (about !== 'other') {
      const end = { isComplete: about === 'close', at, by: session.by, openedAt: undefined, bytes: undefined };
      const isUnproven = at < this.#options.provenFrom;
      const unknown = { written: 0, isUnwritten: false, isDoubted: false, isUnproven, inode: undefined, order: 0 };
      this.#options.cutOff(start, { ...end, ...unknown });
    }
    this.#options.compare();
  }

  #await(session: Session, from: FilePath, to: FilePath | undefined, at: Micros): void {
    const since = this.#options.monotonic();
    this.#unresolved = { from, to, session, at, since, looks: 0, seen: this.#line?.seen, answer: undefined };
  }

  #nextLook({ since, looks }: Unresolved): number {
    return since + (LOOKS_MS[looks] ?? 0);
  }

  /** Whether it is known by now what became of the change. */
  #resolve(change: Unresolved): boolean {
    const { answer, session, from, to } = change;
    // A session does one thing after the other: what it asked for before was done, or a refusal would follow it.
    if (answer && answer.kind !== 'status') {
      this.#done(change, true);
      return true;
    }
    if (!answer && this.#options.monotonic() < this.#nextLook(change)) return false;
    change.looks += 1;
    if (this.#shows(change)) {
      this.#done(change, false);
      return true;
    }
    if (answer) {
      this.#unresolved = undefined;
      // The refusal may be that of an unlogged request.
      session.isDoubtful = true;
      this.#options.look(from, 0);
      if (to !== undefined) this.#options.look(to, 0);
      return true;
    }
    if (change.looks < LOOKS_MS.length) return false;
    this.#done(change, false);
    return true;
  }

  /** Whether the disk shows that the change was done. */
  #shows({ from, to, seen }: Unresolved): boolean {
    const { lstat } = this.#options;
    const file = this.#files.get(from);
    // A later request may have changed that since.
    const [leftThen, arrivedThen] = seen ?? [];
    const wasSeen = file?.inode !== undefined && leftThen?.ino !== file.inode && arrivedThen?.ino === file.inode;
    if (wasSeen && leftThen !== undefined) return true;
    const left = lstat(from);
    if (to === undefined) return !left || (file?.inode !== undefined && left.ino !== file.inode);
    // The log has a file there, and it has gone.
    const isKnown = file !== undefined && (file.inode !== undefined || file.puts.length > 0);
    if (isKnown) {
      // The inode may be that of a file which had the name when the open was read.
      const isLike = left !== undefined && file.puts.at(-1)?.end.bytes === left.size;
      return !left || (file.inode !== undefined && left.ino !== file.inode && !isLike);
    }
    const arrived = lstat(to);
    if (left || !arrived) return false;
    const child = this.#knownBelow(from);
    if (child) return lstat(to + child.path.slice(from.length))?.ino === child.inode;
    return !this.#isAnyKnownAt(to);
  }

  /** A file below a folder whose inode is known. */
  #knownBelow(folder: FilePath): { readonly path: FilePath; readonly inode: number } | undefined {
    for (const [path, { inode }] of this.#files)
      if (inode !== undefined && isBelow(path, folder)) return { path, inode };
    return undefined;
  }

  #isAnyKnownAt(path: FilePath): boolean {
    for (const [each, { writers, puts }] of this.#files) {
      const isKnown = writers.size > 0 || puts.length > 0;
      if (isKnown && (each === path || isBelow(each, path))) return true;
    }
    return false;
  }

  #done({ from, to, session: { by }, at }: Unresolved, isCertain: boolean): void {
    this.#unresolved = undefined;
    const inode = this.#files.get(from)?.inode;
    if (to === undefined) {
      this.#loseName(from);
      return this.#options.happened({ kind: 'remove', path: from, by, at });
    }
    const moving = [...this.#files.values()].filter(({ path = '' }) => path === from || isBelow(path, from));
    for (const [path] of this.#files) if (path === to || isBelow(path, to)) this.#loseName(path);
    for (const file of moving) {
      const path = file.path ?? '';
      this.#files.delete(path);
      file.path = to + path.slice(from.length);
      this.#files.set(file.path, file);
    }
    this.#options.happened({ kind: 'move', from, to, by, at, isCertain, inode });
    this.#options.moved(from, to);
  }

  #loseName(path: FilePath): void {
    const file = this.#files.get(path);
    if (!file) return;
    this.#files.delete(path);
    file.path = undefined;
  }

  #ensure(path: FilePath): File {
    const file = this.#files.get(path) ?? new File(path, this.#options);
    this.#files.set(path, file);
    return file;
  }

  #forget(file: File): void {
    if (file.path !== undefined && !file.isNeeded && this.#files.get(file.path) === file) this.#files.delete(file.path);
  }
}

function droppedAt({ by }: Session, { openedAt, inode, order }: Handle, at: Micros): Ending {
  const unknown = { bytes: undefined, written: 0, isUnwritten: false, isDoubted: false, isUnproven: false };
  return { isComplete: false, at, by, openedAt, inode, order, ...unknown };
}

function refuseWrites(session: Session, start: string): void {
  const exact = session.opened(start);
  const isMeant = ({ name }: Handle): boolean => name === undefined || name.slice(0, NAME_SHOWN) === start;
  for (const handle of exact.length > 0 ? exact : session.all().filter(isMeant)) handle.isRefused = true;
}

/** Whether `path` lies below `folder`. */
export function isBelow(path: FilePath, folder: FilePath): boolean {
  return path.length > folder.length && path.startsWith(folder) && path[folder.length] === '/';
}
