/**
 * Tracks the handles of one directory's sessions, and the times and sizes that clients set. A file whose last writer has
 * gone becomes a put.
 *
 * An open is trusted immediately, and dropped if a refusal follows. If that refusal may have answered a write instead, the
 * handle is doubted: a close of it proves that it existed, and before a put of its file is applied, berth asks the kernel.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { baseName, beginsLike, type FilePath, filePath } from '../file-path.ts';
import type { HeldPath } from '../processes.ts';
import type { Observation } from '../log/journal-record.ts';
import type { LogEventOf } from '../log/log-line.ts';
import type { Found } from './directory.ts';
import { TIMER_GRAIN } from '../record/file-stat.ts';
import type { SessionNote } from '../record/transfer-history.ts';
import type { Ending, Operation, Put, Resize } from './operations.ts';
import { isRefusalOf, otherOf } from './refusals.ts';
import type { File, Handle, LastRequest, Session } from './sessions.ts';
import type { TrackedFiles } from './tracked-files.ts';

/** How many bytes of a name sshd shows when it complains about a write (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;

export interface HandlesOptions {
  readonly directoryId: string;
  /** The file at the path that the current line names. */
  observe(path: FilePath): Observation | undefined;
  isTemporary(path: FilePath): boolean;
  /** A monotonic clock, in ms. */
  monotonic(): number;
  sessionOf(pid: number): Session | undefined;
  happened(operation: Operation): void;
  lstat(path: FilePath): Found | undefined;
  /** The files that the process has open for writing now, one for each descriptor; undefined if that cannot be asked. */
  heldBy(pid: number): readonly HeldPath[] | undefined;
  /** Whether the process has ended. */
  isGone(pid: number): boolean;
  /** An open of the file was most likely refused, and the kernel can tell whether it was. */
  doubted(file: File): void;
  /** The log has cut off the name in a close; `start` is the beginning of the name. */
  cutOff(start: string, end: Ending, session: Session): void;
  /** Requests a comparison with the disk. */
  compare(): void;
  /** An upload ended after its file had lost its name. */
  homeless(end: Ending): void;
  look(path: FilePath, inMs: number): void;
  note(note: SessionNote): void;
  /** Files closed before this time may not have reached the disk, because the machine crashed afterwards. */
  readonly provenFrom: Micros;
}

export class Handles {
  readonly #options: HandlesOptions;
  readonly #files: TrackedFiles;
  /** Handles opened so far. */
  #opened = 0;

  constructor(options: HandlesOptions, files: TrackedFiles) {
    this.#options = options;
    this.#files = files;
  }

  /** Tracks a handle. Returns undefined when the name is not a valid path. */
  open(session: Session, { name, flags }: LogEventOf<'open'>, at: Micros): Handle | undefined {
    const path = filePath(name);
    if (path === undefined) return undefined;
    const creates = flags.includes('CREATE');
    const isExclusive = flags.includes('EXCL');
    const truncates = flags.includes('TRUNCATE') || isExclusive;
    const opening = { name, path, openedAt: at, creates, truncates, isExclusive };
    if (!flags.includes('WRITE') && !flags.includes('APPEND'))
      return this.track(session, { ...opening, inode: undefined });
    // If the session has the file open already, that was seen earlier, when less could have taken its name.
    const other = otherOf(session, this.#files.at(path));
    const identity = other?.inode === undefined ? this.#identityAt(path, truncates ? at : 0) : identityOf(other);
    const adopted = session.openBefore().find(({ file, openedAt }) => file?.path === path && openedAt === undefined);
    if (adopted && session.isNew(this.#options.monotonic())) session.forget(adopted);
    this.correct(session, [path], () => this.#options.observe(path));
    const handle = this.track(session, { ...opening, ...identity }, this.#files.ensure(path));
    if (adopted && !session.openBefore().includes(adopted)) this.withdraw(adopted);
    return handle;
  }

  /** The order of the handle that was opened last. */
  get newest(): number {
    return this.#opened;
  }

  /** Adds a handle to its session and to the file that it writes. */
  track(
    session: Session,
    opening: Pick<
      Handle,
      'name' | 'path' | 'openedAt' | 'inode' | 'bornMs' | 'creates' | 'truncates' | 'isExclusive' | 'isShownLater'
    >,
    file?: File,
  ): Handle {
    this.#opened += 1;
    const handle: Handle = {
      ...opening,
      file,
      order: this.#opened,
      session,
      isRefused: false,
    };
    session.add(handle);
    file?.writers.add(handle);
    return handle;
  }

  /**
   * Which file was opened. Not known if the file at the path is older than `emptiedAt`: emptying a file sets its mtime, so
   * another file has the path by now.
   */
  #identityAt(path: FilePath, emptiedAt: Micros): Pick<Handle, 'inode' | 'bornMs'> {
    const seen = this.#options.observe(path);
    if (!seen || seen.mtimeMs * 1000 < emptiedAt - TIMER_GRAIN) return { inode: undefined };
    return { inode: seen.ino, bornMs: seen.birthtimeMs };
  }

  /**
   * A session names paths. What is there is none of its files with another name: if one was taken for that, the line of its open
   * was read so late that another file had the name.
   */
  correct(session: Session, paths: readonly FilePath[], observe: () => Observation | null | undefined): void {
    const isNamed = ({ file }: Handle): boolean => file?.path !== undefined && paths.includes(file.path);
    const others = session.all().filter((handle) => handle.inode !== undefined && !isNamed(handle));
    // Most sessions have one file open at a time, and the disk need not be asked.
    const there = others.length === 0 ? undefined : observe()?.ino;
    for (const handle of others) {
      if (handle.inode !== there) continue;
      handle.inode = undefined;
      handle.bornMs = undefined;
    }
  }

  /**
   * Somebody writes the file at a path, as the kernel says. If its folder had been renamed when the line of the open was read, nothing
   * was seen at the name of the handle.
   */
  shown(session: Session, path: FilePath, inode: number): void {
    const name = baseName(path);
    const open = session.all().filter((handle) => handle.file && (handle.inode ?? inode) === inode);
    const [only, ...others] = open.filter((handle) => handle.inode === inode || baseName(handle.path) === name);
    if (!only || others.length > 0 || only.inode !== undefined) return;
    if (this.#options.heldBy(session.by.pid)?.some((each) => each.inode === inode) !== true) return;
    const found = this.#options.lstat(path);
    only.inode = inode;
    only.bornMs = found?.ino === inode ? found.birthtimeMs : undefined;
  }

  /** A handle was closed. */
  close(session: Session, event: LogEventOf<'close'>, at: Micros): void {
    const path = filePath(event.name);
    if (path === undefined) return;
    const { by } = session;
    const named = session.closing(event.name, path, event.forced, (handles) =>
      this.#closedOf(handles, session, event.written),
    );
    const handle = named && this.#taken(session, named);
    // The close of a handle that only reads is a download even if the file was empty.
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
    if (!handle && event.written === 0) return;
    const writer = handle ?? this.openUnheard(session, { path, ...this.#identityAt(path, 0) });
    if (!writer.file) return;
    session.forget(writer);
    // sshd does not count the bytes of a write that the disk cuts short.
    const isDoubted = writer.order <= session.doubtedUpTo;
    const isChanged =
      event.written > 0 || writer.creates || writer.truncates || writer.resizedTo !== undefined || isDoubted;
    if (isChanged) this.ended(writer, this.#endOf(writer, event, at));
    else this.gone(writer, at);
  }

  /**
   * Which of a session's handles was closed: one that the process does not hold any more. Of several, one whose file has as
   * many bytes as were written, since it was empty when it was opened; or else the latest whose file does not show that it
   * was not, since a client asks again after a refusal.
   */
  #closedOf(handles: readonly Handle[], session: Session, written: number): Handle | undefined {
    const held = this.#options.heldBy(session.by.pid);
    const doubted = session.doubted();
    const closed = handles.filter(({ file, inode, doubtedInode = inode }) => {
      const isKnown = doubtedInode !== undefined || file?.path !== undefined;
      return isKnown && held?.every((each) => each.inode !== doubtedInode && each.path !== file?.path) === true;
    });
    const [only] = closed;
    if (only && closed.length === 1 && !doubted.includes(only)) return only;
    const foundOf = ({ file }: Handle) => (file?.path === undefined ? undefined : this.#options.lstat(file.path));
    // Many files are empty.
    const isExact = (handle: Handle): boolean =>
      written > 0 && handle.truncates && !doubted.includes(handle) && foundOf(handle)?.size === written;
    const mayBe = (handle: Handle): boolean => {
      const found = foundOf(handle);
      // A write through a doubted handle may not have been counted. But nobody opens again a file that he has just made.
      if (doubted.includes(handle)) return !handle.isExclusive || handles.every(({ order }) => order <= handle.order);
      return !handle.truncates || !found || found.blocks * 512 < found.size;
    };
    // The inode may be that of a file which had the name when the open was read.
    const isHeld = ({ inode, doubtedInode = inode, file }: Handle): boolean =>
      held?.some((each) => (file?.path === undefined ? each.inode === doubtedInode : each.path === file.path)) === true;
    const unheld = handles.filter((handle) => !isHeld(handle));
    const among = unheld.length > 0 ? unheld : handles;
    const likely = [closed.filter(mayBe), among.filter(mayBe), closed].find((some) => some.length > 0) ?? among;
    return handles.find(isExact) ?? likely.toSorted((a, b) => b.order - a.order)[0];
  }

  /** Tracks a handle whose open was not logged. */
  openUnheard(session: Session, { path, inode, bornMs }: Pick<Handle, 'path' | 'inode' | 'bornMs'>): Handle {
    return this.trackUnnamed(session, { path, openedAt: undefined, inode, bornMs }, path);
  }

  /** Tracks a handle of whose open the log has neither the name nor the flags. `now` is its file's path. */
  trackUnnamed(
    session: Session,
    opening: Pick<Handle, 'path' | 'openedAt' | 'inode' | 'bornMs' | 'isShownLater'>,
    now: FilePath,
  ): Handle {
    const unknown = { name: undefined, creates: false, truncates: false, isExclusive: false };
    return this.track(session, { ...opening, ...unknown }, this.#files.ensure(now));
  }

  #endOf(handle: Handle, { forced, written }: LogEventOf<'close'>, at: Micros): Ending {
    const { session, openedAt, truncates, inode, bornMs, order, resizedTo } = handle;
    const isComplete = !forced && !handle.isRefused;
    const isSizeKnown = truncates && (isComplete || handle.hasDoubtfulSize !== true);
    return {
      isComplete,
      isRefused: !forced && handle.isRefused,
      at,
      by: session.by,
      openedAt,
      bytes: isSizeKnown ? Math.max(written, resizedTo ?? 0) : undefined,
      resizedTo: isComplete && !truncates ? resizedTo : undefined,
      written,
      isUnwritten: written === 0 && !truncates && resizedTo === undefined,
      isReserved: written === 0 && truncates && resizedTo !== undefined,
      isDoubted: order <= session.doubtedUpTo,
      isUnproven: at < this.#options.provenFrom,
      inode,
      bornMs,
      order,
    };
  }

  /** A handle ended. */
  ended(handle: Handle, end: Ending): void {
    const { file } = handle;
    if (!file) return;
    file.newestEnd = file.newestEnd ? together(file.newestEnd, end) : end;
    this.withdraw(handle);
  }

  /** A handle ended at that time at the latest, and changed nothing that is known. */
  gone(handle: Handle, at: Micros): void {
    const { file } = handle;
    if (file?.newestEnd) file.newestEnd = { ...file.newestEnd, at };
    this.withdraw(handle);
  }

  /** Takes a handle off its file, as if it had never been opened. The last one to go makes a put of what has ended. */
  withdraw(handle: Handle): void {
    const { file } = handle;
    if (!file) return;
    file.writers.delete(handle);
    if (file.hasOpenWriters) return;
    const { newestEnd: end } = file;
    file.newestEnd = undefined;
    // Nothing was added to the previous upload, which has yet to be recorded.
    const hasAddedNothing = end?.isUnwritten === true && file.puts.at(-1)?.end.isComplete === true;
    const { path } = file;
    if (!end || hasAddedNothing) {
      // An upload whose session is over may have waited for this handle.
      if (path !== undefined) this.#options.look(path, 2);
      return this.#files.forget(file);
    }
    if (path === undefined) {
      this.#files.forget(file);
      return this.#options.homeless(end);
    }
    const doubted = [...file.doubted];
    const isDoubted = (): boolean => doubted.some((each) => file.doubted.has(each));
    const put: Put = { kind: 'put', path, file, end, isDoubted, isVoid: false };
    for (const each of doubted) each.doubts = put;
    file.addPut(put);
    if (end.isReserved || this.#options.isTemporary(path)) {
      const { session } = handle;
      const closer = end.by.pid === session.by.pid ? session : this.#options.sessionOf(end.by.pid);
      if (closer) closer.hasTemporary = true;
    }
    this.#options.happened(put);
  }

  /**
   * The file at a path will lose its name. If another session has completed an upload to it, that does not wait for the handles of
   * processes that have died. Their last lines may still come.
   */
  losesName(path: FilePath): void {
    const file = this.#files.at(path);
    if (file?.newestEnd?.isComplete !== true) return;
    const writers = Array.from(file.writers);
    if (writers.some(({ session: { by } }) => by.pid === file.newestEnd?.by.pid || !this.#options.isGone(by.pid)))
      return;
    for (const handle of writers) {
      handle.session.forget(handle);
      this.track(handle.session, handle, this.#files.nameless(path));
      this.withdraw(handle);
    }
  }

  /**
   * sshd refused a request.
   * @param lastRequest the session's request before that.
   * @param after what was at its paths when the refusal was read.
   */
  refused(
    session: Session,
    lastRequest: LastRequest | undefined,
    status: string,
    after: readonly (Observation | null)[] | undefined,
  ): void {
    // It may have been a write that only partly fitted on the disk, which sshd refuses without a complaint.
    const isExplained = isRefusalOf(lastRequest, after);
    if (status === 'Failure' && !isExplained) {
      session.doubtedUpTo = this.#opened;
      // If the log has cut off the name, it has no number of bytes to compare the size with. So the refusal counts as that of a write
      // only if no other request right before can explain it.
      const isWrite = lastRequest === undefined || lastRequest.kind === 'open' || lastRequest.kind === 'open-cut-off';
      const unnamed = session.openBefore().filter((handle) => !session.ahead.has(handle) && isOpen(session, handle));
      for (const open of isWrite ? [...session.cutOff, ...unnamed] : []) open.mayBeShort = true;
    }
    if (lastRequest?.kind === 'open-cut-off') {
      if (session.isAnswer(status)) session.cutOff.delete(lastRequest.open);
      else session.doubtCutOff(lastRequest.open, this.#options.heldBy(session.by.pid));
    }
    if (lastRequest?.kind === 'set' && session.isAnswer(status)) lastRequest.undo();
    if (lastRequest?.kind !== 'open') return;
    const opened = lastRequest.handle;
    const { file, isExclusive } = opened;
    const isAnswer =
      session.isAnswer(status) || isExplained || (isExclusive && otherOf(session, file, opened) !== undefined);
    if (isAnswer || !file) session.forget(opened);
    else {
      session.doubt(opened);
      // The file may have been renamed since.
      const { path } = file;
      const seen = path === opened.path ? this.#options.observe(path) : undefined;
      const there = seen ?? (path === undefined ? undefined : this.#options.lstat(path));
      const inode = opened.inode ?? there?.ino;
      if (inode !== undefined) opened.doubtedInode = inode;
      file.doubted.add(opened);
      file.doubtedAt = this.#options.monotonic();
      this.#options.doubted(file);
    }
    this.withdraw(opened);
  }

  /** The opens of those handles were refused: they were not held, and every line until then has been read. */
  disbelieve(handles: readonly Handle[]): void {
    for (const handle of handles) {
      const { file } = handle;
      handle.session.undoubt(handle);
      if (file?.doubted.delete(handle)) this.#files.forget(file);
    }
  }

  /** The kernel says that the file's doubted handles exist, so the file is still being written. */
  believe(file: File, { end }: Put): void {
    for (const handle of file.doubted) {
      handle.session.undoubt(handle);
      handle.session.add(handle);
      file.writers.add(handle);
    }
    file.doubted.clear();
    file.newestEnd = file.newestEnd ? together(end, file.newestEnd) : end;
  }

  /** Tracks a handle whose open was most likely refused, for a session that goes on after a restart. */
  trackDoubted(handle: Handle): void {
    handle.session.doubt(handle);
    handle.file?.doubted.add(handle);
    handle.file?.writers.delete(handle);
  }

  /** Takes a handle off its session because it was closed. If it was doubted, it exists after all. */
  #taken(session: Session, closed: Handle): Handle {
    session.forget(closed);
    if (!session.doubted().includes(closed)) return closed;
    session.undoubt(closed);
    const { file, doubts } = closed;
    const isTracked = file?.doubted.delete(closed) === true;
    if (isTracked && doubts && file.puts.includes(doubts)) {
      doubts.isVoid = true;
      file.newestEnd = file.newestEnd ? together(doubts.end, file.newestEnd) : doubts.end;
    }
    const handle = isTracked ? closed : { ...closed, file: this.#files.ensure(closed.path) };
    handle.file?.writers.add(handle);
    return handle;
  }

  /**
   * A client set a file's times or size.
   * @param seen what was there when the line was read: null for no file.
   */
  set(
    session: Session,
    { name, size }: LogEventOf<'set'>,
    at: Micros,
    seen: Observation | null | undefined,
  ): LastRequest {
    const undone: (() => void)[] = [];
    const path = filePath(name);
    // The name may be that of an open handle, whose file has been renamed since.
    const opened = [...session.opened(name), ...session.doubted().filter((handle) => handle.name === name)];
    const files = new Set(opened.flatMap(({ file }) => (file ? [file] : [])));
    const there = path === undefined ? undefined : this.#files.at(path);
    if (there) files.add(there);
    if (path !== undefined && ![...files].some((file) => file.path === path)) files.add(this.#files.ensure(path));
    const now = size === undefined || path === undefined || seen === null ? undefined : this.#options.observe(path);
    for (const file of files) {
      const { setAt, resized } = file;
      undone.push(() => Object.assign(file, { setAt, resized }));
      file.setAt = this.#options.monotonic();
      if (size !== undefined && !file.hasOpenWriters)
        file.resized = resizedAgain(resized, { by: session.by, at, size }, now);
      // A size is set by name, which may be that of another file by now.
      if (size !== undefined && file.path !== path) for (const each of file.writers) each.hasDoubtfulSize = true;
      for (const each of size !== undefined ? [...file.puts.slice(-1), ...file.writers, ...file.doubted] : []) {
        const { resizedTo } = each;
        undone.push(() => void (each.resizedTo = resizedTo));
        each.resizedTo = size;
      }
      if (file.path !== undefined && !file.hasOpenWriters) this.#options.look(file.path, 2);
    }
    return { kind: 'set', undo: () => undone.forEach((undo) => undo()) };
  }
}

function identityOf({ inode, bornMs }: Handle): Pick<Handle, 'inode' | 'bornMs'> {
  return { inode, bornMs };
}

/** A file's size was set. Another file may have the path by now (`there`). It has another size. */
function resizedAgain(
  before: Resize | undefined,
  set: Pick<Resize, 'by' | 'at' | 'size'>,
  there: Observation | undefined,
): Resize {
  const isOfOther = before?.inode !== undefined && there !== undefined && before.inode !== there.ino;
  const isVaried = before !== undefined && !isOfOther && (before.isVaried || before.size !== set.size);
  if (there?.size === set.size) return { ...set, inode: there.ino, isVaried };
  return { ...(before ?? set), inode: before?.inode, size: set.size, isVaried };
}

/** How two handles of a file ended, the last of them with `last`. */
function together(before: Ending, last: Ending): Ending {
  const [older, newer] = before.order > last.order ? [last, before] : [before, last];
  const { at, by } = last;
  const isUnwritten = before.isUnwritten && last.isUnwritten;
  const othersBytes = Math.max(older.bytes ?? 0, older.othersBytes ?? 0, newer.othersBytes ?? 0);
  const common = { ...newer, at, by, isUnwritten, othersBytes };
  if (newer.bytes !== undefined || older.bytes === undefined) return common;
  // The older handle emptied the file, and the newer one added to that.
  const began = Math.max(older.bytes, newer.resizedTo ?? 0);
  return { ...common, bytes: began + newer.written, resizedTo: undefined, written: older.written + newer.written };
}

/** How a handle ends when its process dies. Another request after the open shows that the open was done. */
export function droppedAt(
  { by, lastAt }: Session,
  {
    openedAt,
    inode,
    bornMs,
    order,
    truncates,
  }: Pick<Handle, 'openedAt' | 'inode' | 'bornMs' | 'order'> & { readonly truncates?: boolean },
  at: Micros,
): Ending {
  const isEmptied = truncates === true && openedAt !== undefined && lastAt !== undefined && lastAt > openedAt;
  const unknown = { bytes: undefined, written: 0, isUnwritten: false, isDoubted: false, isUnproven: false };
  const handle = { openedAt, inode, bornMs, order, isEmptied };
  return { isComplete: false, isRefused: false, isReserved: false, at, by, ...handle, ...unknown };
}

/**
 * The server refused a write.
 * @param start the first `NAME_SHOWN` bytes of the name that the handle was opened with.
 */
export function refuseWrites(session: Session, start: string): void {
  const exact = session.opened(start);
  const isMeant = ({ name, path }: Handle): boolean =>
    name === undefined ? beginsLike(path, start) : name.slice(0, NAME_SHOWN) === start;
  for (const handle of exact.length > 0
    ? exact
    : session.all().filter((each) => isMeant(each) && isOpen(session, each)))
    handle.isRefused = true;
  if (exact.length > 0) return;
  for (const open of session.cutOff) if (open.start.slice(0, NAME_SHOWN) === start) open.isRefused = true;
}

/** Whether no close waits that may be that of the handle: which one was closed may not be known yet. */
function isOpen({ parked }: Session, { path }: Handle): boolean {
  return !parked.some((close) => beginsLike(path, close.start));
}
