/**
 * What sshd's log means: each event of a session becomes evidence in the ledger.
 *
 * Requests are logged before they are tried, and of their answers only refusals are. Some requests are not logged at
 * all (reads, writes, stats), so a refusal may be the answer to one of those: the disk tells which.
 */
import type { Micros } from '../../clock.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { BySession, Handle, HandleEnd } from '../record/evidence.ts';
import { LOG_LAG, TIMER_GRAIN } from '../record/file-stat.ts';
import type { SessionNote } from '../record/history.ts';
import type { Ledger } from '../record/ledger.ts';
import type { Change, Entry } from '../record/namespace.ts';
import type { LogEvent } from './log-line.ts';
import { type Asked, Session, type Sessions } from './sessions.ts';
import type { Sighting } from './journal-record.ts';

/** sshd's complaint about a write shows that many bytes of a name (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;

const OTHER: Asked = { kind: 'other' };

type Event<K extends LogEvent['kind']> = LogEvent & { kind: K };

/** How a handle was opened. */
type Opening = Pick<Handle, 'name' | 'path' | 'openedAt' | 'inode' | 'creates' | 'truncates'>;

/** A file that a process writes. */
interface HeldPath {
  readonly path: FilePath;
  readonly inode: number;
}

/** Its open was not heard. */
const UNHEARD = { name: undefined, openedAt: undefined, creates: false, truncates: false };

export interface InterpretOptions {
  readonly ledger: Ledger;
  readonly sessions: Sessions;
  lstat(jail: Jail, path: FilePath): Sighting | undefined;
  /** A name that the log could not tell whole. */
  unclear(session: Session, event: Event<'unclear'>, at: Micros): void;
  /** Something for the history. */
  note(note: SessionNote): void;
  /** A session is over: nobody renames what it left under temporary names. */
  ended(session: Session, at: Micros): void;
  /** What was closed before may not have reached the disk: the machine went down since. */
  readonly provenFrom?: Micros | undefined;
}

/** A handle that a session had open when the journal was compacted. */
type KeptHandle = Omit<Handle, 'entry' | 'pid' | 'order'> & {
  /** Whether it writes, and where its file is by now: null when it has no name any more. */
  readonly writes: boolean;
  readonly now: FilePath | null;
};

/** A session as it was when the journal was compacted. */
export interface KeptSession {
  readonly by: BySession;
  readonly openedAt: Micros | undefined;
  readonly born: string | undefined;
  readonly serves: boolean;
  readonly isDoubted: boolean;
  readonly handles: readonly KeptHandle[];
}

export class Interpreter {
  readonly #options: InterpretOptions;
  readonly #ledger: Ledger;
  /** Of the handle that was opened last. */
  #order = 0;
  /** What lay there when the line came that is interpreted, if somebody looked, and whether that was just now. */
  #seen: Sighting | null | undefined;
  #isFresh = true;

  constructor(options: InterpretOptions) {
    this.#options = options;
    this.#ledger = options.ledger;
  }

  /** A session has begun. */
  begin(pid: number, address: string, jail: Jail, at: Micros, born?: string): void {
    const by = { pid, address };
    this.#options.sessions.add(new Session(jail, by, { openedAt: at, serves: true, born }));
    this.#options.note({ event: 'session-opened', directoryId: jail.id, at, by });
  }

  /** A session that was there before the log was, with the files that it writes. */
  adopt(session: Session, writing: readonly HeldPath[]): void {
    this.#options.sessions.add(session);
    for (const file of writing) session.add(this.#openWriter(session, { ...UNHEARD, ...file }));
  }

  /** What a later process has to know of a directory's sessions to go on with what they say next. */
  kept(directoryId: string): KeptSession[] {
    return this.#options.sessions.of(directoryId).map((session) => {
      const { by, openedAt, born, serves, doubtedUpTo } = session;
      const handles = session.all().map(({ entry, pid: _pid, order: _order, ...handle }): KeptHandle => {
        const now = entry && !entry.isAttached ? null : (entry?.path ?? handle.path);
        return { ...handle, writes: entry !== undefined, now };
      });
      return { by, openedAt, born, serves, isDoubted: doubtedUpTo > 0, handles };
    });
  }

  /** Takes up sessions as an earlier process has kept them. */
  restore(jail: Jail, kept: readonly KeptSession[]): void {
    for (const { by, openedAt, born, serves, isDoubted, handles } of kept) {
      const session = new Session(jail, by, { openedAt, born, serves });
      this.#options.sessions.add(session);
      for (const { writes, now, ...given } of handles) {
        const { name, openedAt: at, inode, isRefused, isDoubtful, creates, truncates } = given;
        const opening = { name, path: now ?? given.path, openedAt: at, inode, creates, truncates };
        const handle = writes
          ? this.#openWriter(session, opening)
          : { ...this.#handle(session, opening), entry: undefined };
        session.add(handle);
        handle.isRefused = isRefused;
        if (isDoubtful) session.doubt(handle);
        if (now === null) this.#ledger.lose(handle);
      }
      if (isDoubted) session.doubtedUpTo = this.#order;
    }
  }

  /**
   * Compares the handles that a live session had with the files that the kernel says it writes.
   * @param isGapless whether every open since was heard, or is still to be.
   */
  compare(session: Session, handles: readonly Handle[], writing: readonly HeldPath[], isGapless: boolean): void {
    const current = new Set(session.all());
    for (const handle of handles) {
      const { entry, inode, isDoubtful } = handle;
      if (!entry?.isAttached || isDoubtful || !current.has(handle)) continue;
      if (writing.some((file) => file.path === entry.path || file.inode === inode)) continue;
      session.forget(handle);
      this.#look(handle, entry);
    }
    if (isGapless) return;
    const isKnown = ({ path }: HeldPath): boolean => [...current].some(({ entry }) => entry?.path === path);
    for (const file of writing) {
      if (!isKnown(file)) session.add(this.#openWriter(session, { ...UNHEARD, ...file }));
    }
  }

  /** @param seen what lay at its path when it was logged, null for nothing; looked up now when it is left out. */
  interpret(session: Session, event: LogEvent, at: Micros, seen?: Sighting | null, isFresh = true): void {
    session.serves = true;
    this.#seen = seen;
    this.#isFresh = isFresh;
    session.asked = this.#asked(session, event, at);
    this.#seen = undefined;
    session.isComplaining = event.kind === 'complaint' || event.kind === 'write-refused';
  }

  /** A session is over: sshd has said so, or its process has died without a word. */
  end(jail: Jail, pid: number, at: Micros, isSaid: boolean): void {
    const { sessions, note, ended } = this.#options;
    const session = sessions.get(jail.id, pid);
    if (!session) return;
    const { by } = session;
    sessions.remove(jail.id, pid);
    for (const handle of session.all()) {
      const { path, openedAt, entry, isDoubtful } = handle;
      const dropped = { isComplete: false, at, by, bytes: undefined, isDoubted: false };
      // sshd closes all handles before it says that a session is over, so a close was not heard or not understood.
      if (entry && isSaid && !isDoubtful) this.#look(handle, entry);
      else if (entry) this.#ledger.release(handle, isDoubtful ? undefined : dropped);
      else if (!isDoubtful) note({ event: 'download-dropped', directoryId: jail.id, at, by, path, openedAt });
    }
    session.reads.end().forEach(note);
    ended(session, at);
    if (session.serves) note({ event: 'session-closed', directoryId: jail.id, at, by, openedAt: session.openedAt });
  }

  /** What became of a file through a handle is not known: the disk has to tell. */
  #look(handle: Handle, entry: Entry): void {
    this.#ledger.release(handle, undefined);
    if (entry.isAttached) this.#ledger.touch(entry.directory.jail, entry.path, 0);
  }

  /** What a session asks for from here on; undefined when it asks for nothing that could be refused. */
  #asked(session: Session, event: LogEvent, at: Micros): Asked | undefined {
    const { jail, by } = session;
    switch (event.kind) {
      case 'open':
        return this.#opened(session, event, at);
      case 'close':
        this.#closed(session, event, at);
        return undefined;
      case 'rename': {
        const [from, to] = [filePath(event.from), filePath(event.to)];
        if (from && to && this.#isFresh) this.#learnInodes(jail, from, to);
        const change = from && to ? this.#ledger.rename(jail, { from, to, by, at }) : undefined;
        return change ? { kind: 'change', change } : OTHER;
      }
      case 'remove': {
        const path = filePath(event.name);
        return path ? { kind: 'change', change: this.#ledger.remove(jail, path, by, at) } : OTHER;
      }
      case 'set': {
        const path = filePath(event.name);
        // It may be a handle's name, whose file has another by now.
        for (const { entry } of session.opened(event.name)) if (entry) this.#ledger.set(jail, entry, event);
        if (path) this.#ledger.set(jail, path, event);
        return OTHER;
      }
      case 'unclear':
        this.#options.unclear(session, event, at);
        return OTHER;
      case 'status':
        this.#refused(session, event.text);
        return undefined;
      case 'write-refused':
        refuseWrites(session, event.name);
        return session.asked;
      case 'complaint':
        return session.asked;
      case 'session-opened':
      case 'session-closed':
      case 'other':
        return OTHER;
    }
  }

  #opened(session: Session, { name, flags }: Event<'open'>, at: Micros): Asked {
    const path = filePath(name);
    if (!path) return OTHER;
    const creates = flags.has('CREATE');
    const truncates = flags.has('TRUNCATE');
    const opening = { name, path, openedAt: at, creates, truncates };
    const handle =
      flags.has('WRITE') || flags.has('APPEND')
        ? this.#openWriter(session, { ...opening, inode: this.#inodeOf(session.jail, path, truncates ? at : 0) })
        : { ...this.#handle(session, { ...opening, inode: undefined }), entry: undefined };
    this.#drop(session, session.adopted(handle));
    session.add(handle);
    return { kind: 'open', handle };
  }

  #openWriter(session: Session, opening: Opening): Handle {
    return this.#ledger.open(session.jail, this.#handle(session, opening));
  }

  #handle({ by }: Session, opening: Opening): Omit<Handle, 'entry'> {
    this.#order += 1;
    return { ...opening, pid: by.pid, order: this.#order, isRefused: false, isDoubtful: false };
  }

  /** Of the file that was opened, unless the path is another's by now: one that was emptied since then is new. */
  #inodeOf(jail: Jail, path: FilePath, emptiedAt: Micros): number | undefined {
    // An open is logged before it makes or empties its file: a later look tells more, unless the file has been renamed by then.
    const stats =
      (this.#isFresh && emptiedAt > 0 ? this.#options.lstat(jail, path) : undefined) ?? this.#lstat(jail, path);
    return stats && stats.mtimeMs * 1000 >= emptiedAt - TIMER_GRAIN ? stats.ino : undefined;
  }

  /** Files that were opened below a folder and not there to be seen yet are known later by their inodes alone. */
  #learnInodes(jail: Jail, from: FilePath, to: FilePath): void {
    for (const { path, handles } of this.#ledger.writersBelow(jail, from)) {
      const unseen = handles.filter(
        ({ inode, openedAt, isDoubtful }) => !inode && openedAt !== undefined && !isDoubtful,
      );
      if (unseen.length === 0) continue;
      const { lstat } = this.#options;
      const ino = (lstat(jail, path) ?? lstat(jail, `${to}${path.slice(from.length)}`))?.ino;
      for (const handle of unseen) handle.inode = ino;
    }
  }

  #closed(session: Session, event: Event<'close'>, at: Micros): void {
    const path = filePath(event.name);
    if (!path) return;
    const { jail, by } = session;
    const handle = session.take(event.name, path);
    // A handle that only reads says so also when the file was empty.
    if (event.read > 0 || (handle && !handle.entry)) {
      const rows = session.reads.add({
        event: event.forced ? 'download-dropped' : 'downloaded',
        directoryId: jail.id,
        at,
        by,
        path: handle?.entry?.path ?? path,
        bytes: event.read,
        openedAt: handle?.openedAt,
      });
      rows.forEach(this.#options.note);
    }
    const unheard = { ...UNHEARD, path, inode: event.written > 0 ? this.#inodeOf(jail, path, 0) : undefined };
    const writer = handle ?? (event.written > 0 ? this.#openWriter(session, unheard) : undefined);
    if (!writer?.entry) return;
    const isChanged = event.written > 0 || writer.creates || writer.truncates;
    const sizeSeen = this.#sizeOf(jail, writer, event, at);
    const isUnproven = at < (this.#options.provenFrom ?? -Infinity);
    const end = { ...endOf(session, writer, event, at), sizeSeen, isUnproven };
    this.#ledger.release(writer, isChanged ? end : undefined);
  }

  /** Of a file that was not empty when it was opened: what lies there, unless that was changed after the close. */
  #sizeOf(jail: Jail, { openedAt, truncates, entry }: Handle, { written }: Event<'close'>, at: Micros) {
    if (this.#seen) return this.#seen.size;
    // Its open was not heard: mostly it was empty then.
    if (openedAt === undefined) return written;
    if (truncates || !entry?.isAttached) return undefined;
    const stats = this.#lstat(jail, entry.path);
    return stats && stats.mtimeMs * 1000 <= at + TIMER_GRAIN ? stats.size : undefined;
  }

  #refused(session: Session, status: string): void {
    const { asked, isComplaining } = session;
    if (isComplaining || asked?.kind === 'other') return;
    if (asked?.kind === 'open') return this.#openRefused(session, asked.handle);
    if (asked?.kind === 'change' && this.#wasRefused(session.jail, asked.change, status)) {
      session.hasUndone = true;
      return asked.change.undo();
    }
    // The answer to something that is not logged. A write that found only some room gets this, without a complaint.
    if (status === 'Failure') session.doubtedUpTo = this.#order;
  }

  /**
   * Whether a change that a refusal follows was refused. In doubt it was: a look that finds the file under the new name
   * all the same knows it by its inode. A rename onto another file gets `Failure`, and little that is not logged does.
   */
  #wasRefused(jail: Jail, { to, entry }: Change, status: string): boolean {
    if (to === undefined) return true;
    const arrived = this.#lstat(jail, to);
    return !arrived || !(mayBe(entry, arrived, status === 'Failure') || this.#hasCome(jail, to, entry));
  }

  /** Whether a folder has arrived there, by a file in it. */
  #hasCome(jail: Jail, to: FilePath, folder: Entry): boolean {
    const known = folder.isAttached ? knownBelow(folder) : undefined;
    return known !== undefined && this.#options.lstat(jail, `${to}/${known.name}`)?.ino === known.inode;
  }

  #lstat(jail: Jail, path: FilePath): Sighting | undefined {
    return this.#seen === undefined ? this.#options.lstat(jail, path) : (this.#seen ?? undefined);
  }

  /** Without a file there is no handle. With one, the kernel is asked when it matters. */
  #openRefused(session: Session, handle: Handle): void {
    const isThere = this.#lstat(session.jail, handle.path) !== undefined;
    const dropped = isThere && handle.entry ? session.doubt(handle) : handle;
    this.#drop(session, dropped);
  }

  /** Forgets a handle that is none, or another one already: nothing ended with it. */
  #drop(session: Session, handle: Handle | undefined): void {
    if (!handle) return;
    session.forget(handle);
    this.#ledger.release(handle, undefined);
  }
}

function endOf(session: Session, handle: Handle, event: Event<'close'>, at: Micros): HandleEnd {
  return {
    isComplete: !event.forced && !handle.isRefused,
    at,
    by: session.by,
    bytes: handle.truncates ? event.written : undefined,
    isUnwritten: event.written === 0 && !handle.truncates,
    isDoubted: handle.order <= session.doubtedUpTo,
  };
}

function refuseWrites(session: Session, start: string): void {
  const exact = session.opened(start);
  const isMeant = ({ name }: Handle): boolean => !name || name.slice(0, NAME_SHOWN) === start;
  for (const handle of exact.length > 0 ? exact : session.all().filter(isMeant)) handle.isRefused = true;
}

/** Whether that may be the entry's file: by its inode, or else, unless `isStrict`, by its size and time. */
function mayBe(entry: Entry, { ino, size, mtimeMs }: Sighting, isStrict: boolean): boolean {
  const last = entry.closes.at(-1);
  const inode = inodeOf(entry);
  if (inode !== undefined || !last || isStrict) return inode === ino;
  const isOlder = last.openedAt !== undefined && mtimeMs * 1000 < last.openedAt - LOG_LAG;
  return !isOlder && (last.bytes === undefined || last.bytes === size);
}

/** Of the file that was written, when it was seen. */
function inodeOf({ closes, writers }: Entry): number | undefined {
  return closes.at(-1)?.inode ?? [...writers].find(({ inode }) => inode !== undefined)?.inode;
}

/** A file below a folder that was seen, with its name from there. */
function knownBelow(folder: Entry): { readonly name: FilePath; readonly inode: number } | undefined {
  for (const child of folder.children.values()) {
    const inode = inodeOf(child);
    if (inode !== undefined) return { name: child.name, inode };
    const below = knownBelow(child);
    if (below) return { ...below, name: `${child.name}/${below.name}` };
  }
  return undefined;
}
