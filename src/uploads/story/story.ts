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
import type { SessionNote } from '../record/history.ts';
import { droppedAt, Handles, refuseWrites } from './handles.ts';
import { type ChangeOptions, PendingChange } from './pending-change.ts';
import { File, type KeptSession, Session, type SessionStart } from './sessions.ts';
import { isBelow, TrackedFiles } from './tracked-files.ts';
import type { Ending, Operation, Put } from './operations.ts';

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

type Event<K extends LogEvent['kind']> = LogEvent & { kind: K };

export class Story {
  readonly #options: StoryOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #files: TrackedFiles;
  readonly #handles: Handles;
  readonly #queue: ReadLine[] = [];
  /** The line that is being read. */
  #line: ReadLine | undefined;
  #pending: PendingChange | undefined;
  /** Lines taken so far, and lines read. */
  #taken = 0;
  #read = 0;

  constructor(options: StoryOptions) {
    this.#options = options;
    this.#files = new TrackedFiles(options);
    const asked = {
      ...options,
      sight: (path: FilePath) => this.#sight(path),
      sessionOf: (pid: number) => this.#sessions.get(pid),
    };
    this.#handles = new Handles(asked, this.#files);
  }

  /** A session has begun, or was there before the log was: then `writing` is what the kernel says it has open. */
  begin(start: SessionStart, writing: readonly HeldPath[] = []): void {
    const { by, openedAt } = start;
    this.end(by.pid, openedAt ?? 0, openedAt === undefined ? 'unheard' : 'died');
    const session = new Session(start);
    this.#sessions.set(by.pid, session);
    for (const file of writing) this.#handles.openUnheard(session, file);
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
    for (const { handles, isDoubted, lastAt, ...start } of kept) {
      const session = new Session(start);
      session.lastAt = lastAt ?? start.openedAt;
      session.hasTemporary = true; // it may have
      this.#sessions.set(start.by.pid, session);
      for (const { writes, now, isRefused, isDoubtful, ...opening } of handles) {
        const path = now ?? opening.path;
        const file = writes
          ? now === null
            ? new File(undefined, this.#options)
            : this.#files.ensure(path)
          : undefined;
        const handle = this.#handles.track(session, { ...opening, path }, file);
        handle.isRefused = isRefused;
        if (isDoubtful) session.doubt(handle);
      }
      if (isDoubted) session.doubtedUpTo = this.#handles.newest;
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
      this.#handles.release(handle, undefined, 0);
      this.#options.look(path, 0);
    }
    if (isGapless) return;
    for (const file of writing) {
      if (!session.all().some((handle) => handle.file?.path === file.path)) this.#handles.openUnheard(session, file);
    }
  }

  /** Puts a line at the end of the queue. */
  add({ text, ...line }: Line): void {
    const event = readEvent(text);
    this.#taken += 1;
    this.#queue.push({ ...line, event });
    const waiting = this.#pending;
    if (waiting && waiting.answer === undefined && waiting.change.session.by.pid === line.pid) {
      waiting.answer = { event, seen: line.seen };
    }
  }

  /** Reads up to `limit` lines. Returns when to go on, by the monotonic clock; undefined when nothing is left. */
  advance(limit: number): number | undefined {
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
      // The answer may be in the queue already.
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

  /** The number of the last line that was taken; `hasRead` tells when it has been read. */
  get taken(): number {
    return this.#taken;
  }

  hasRead(line: number): boolean {
    return this.#read >= line && !this.#pending;
  }

  /** Lines that wait, with the one that is not resolved yet. */
  get waiting(): number {
    return this.#queue.length + (this.#pending ? 1 : 0);
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
      this.#handles.release(handle, isDropped ? droppedAt(session, handle, at) : undefined, at);
      if (!isDropped && path !== undefined) look(path, 0);
    }
    session.reads.end().forEach(note);
    // Whenever its death is noticed, also by a later process: what it left is announced once, so the time has to be the same.
    const endedAt = how === 'said' ? at : (session.lastAt ?? at);
    if (session.hasTemporary) happened({ kind: 'end', by, at: endedAt });
    if (session.isDoubtful) this.#options.compare();
    note({ event: 'session-closed', directoryId, at, by, openedAt: session.openedAt });
  }

  fileAt(path: FilePath): File | undefined {
    return this.#files.at(path);
  }

  pids(): number[] {
    return [...this.#sessions.keys()];
  }

  has(pid: number): boolean {
    return this.#sessions.has(pid);
  }

  /** Whether that session is live: the number of its process may be another session's by now. */
  isLive({ by, openedAt }: SessionStart): boolean {
    const session = this.#sessions.get(by.pid);
    return session !== undefined && session.openedAt === openedAt;
  }

  /** The session has left an upload under a temporary name. False when it is over. */
  leavesTemporary(pid: number): boolean {
    const session = this.#sessions.get(pid);
    if (session) session.hasTemporary = true;
    return session !== undefined;
  }

  /** A look at that path is over: what is not needed is forgotten. */
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

  /** Nothing is known that is worth keeping. */
  get isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#files.size === 0 && this.#queue.length === 0 && !this.#pending;
  }

  #interpret({ at, pid, event }: ReadLine): void {
    if (event.kind === 'session-closed') return this.end(pid, at, 'said');
    // One that was taken for dead goes on.
    if (!this.#sessions.has(pid)) this.begin({ by: { pid, address: '' }, openedAt: undefined, born: undefined });
    const session = this.#sessions.get(pid);
    if (!session) return;
    session.lastAt = at;
    switch (event.kind) {
      case 'open':
        session.last = this.#handles.open(session, event, at);
        break;
      case 'close':
        this.#handles.close(session, event, at);
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
        this.#handles.set(session, event);
        session.last = 'other';
        break;
      case 'unclear':
        this.#unclear(session, event, at);
        session.last = 'other';
        break;
      case 'status':
        this.#handles.refused(session, event.text);
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

  /** What lies at the path that the line names: by now when it is fresh, which shows more, or when it was read. */
  #sight(path: FilePath): Sighting | undefined {
    const { isFresh = true, seen } = this.#line ?? {};
    const now = isFresh || !seen ? this.#options.lstat(path) : undefined;
    return now ?? seen?.[0] ?? undefined;
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
    const change = { from, to, session, at, seen: this.#line?.seen };
    this.#pending = new PendingChange(change, this.#options.monotonic());
  }

  /** Whether it is known by now what became of the change. */
  #resolve(pending: PendingChange): boolean {
    const { lstat, look, monotonic } = this.#options;
    const verdict = pending.verdict(this.#files, lstat, monotonic());
    if (verdict === 'open') return false;
    this.#pending = undefined;
    const { session, from, to } = pending.change;
    if (verdict === 'refused') {
      session.isDoubtful = true;
      look(from, 0);
      if (to !== undefined) look(to, 0);
    } else this.#done(pending.change, verdict === 'certain');
    return true;
  }

  #done({ from, to, session: { by }, at }: ChangeOptions, isCertain: boolean): void {
    const { happened, moved } = this.#options;
    if (to === undefined) {
      this.#files.loseName(from);
      return happened({ kind: 'remove', path: from, by, at });
    }
    const inode = this.#files.at(from)?.inode;
    this.#files.move(from, to);
    happened({ kind: 'move', from, to, by, at, isCertain, inode });
    moved(from, to);
  }
}
