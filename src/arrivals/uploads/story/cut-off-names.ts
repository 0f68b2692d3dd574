/**
 * Tracks handles whose names sshd's log has cut off (`log-line.ts`). While a process lives, the kernel has the whole paths
 * of the files that it holds, so an open gets its file from there, and a close counts once the kernel no longer shows the
 * handle.
 *
 * Promise: a file counts as closed only if its process lived on without it, or if the session has closed all its handles. A
 * comparison with the disk decides what the kernel cannot tell.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { beginsLike, type FilePath, folderOf } from '../file-path.ts';
import type { HeldPath } from '../processes.ts';
import { LOG_LAG } from '../record/file-stat.ts';
import { droppedAt, type Handles, type HandlesOptions } from './handles.ts';
import type { Ending } from './operations.ts';
import { beginningOf, type CutOffOpen, type Handle, type ParkedClose, type Session } from './sessions.ts';
import type { TrackedFiles } from './tracked-files.ts';

/** How many files are remembered by their whole names after a close whose name the log has cut off. */
const CLOSED = 20;

/** When to ask the kernel again about a name that the log has cut off, in ms after the last time. */
const QUESTIONS_MS = [2, 5, 20, 50, 200, 700];

export class CutOffNames {
  readonly #options: HandlesOptions;
  readonly #files: TrackedFiles;
  readonly #handles: Handles;
  /** Sessions of which the kernel is asked again, how often it was asked, and when next, by the monotonic clock in ms. */
  readonly #asking = new Map<Session, { count: number; due: number }>();

  constructor(options: HandlesOptions, files: TrackedFiles, handles: Handles) {
    this.#options = options;
    this.#files = files;
    this.#handles = handles;
  }

  /** How many closes wait until the kernel shows them. */
  get waiting(): number {
    return this.#asking.keys().reduce((sum, session) => sum + session.parked.length, 0);
  }

  /**
   * A name was opened that the log has cut off. While the process lives, the kernel has the whole path. A handle that
   * only reads is not tracked.
   * @param held what the process held when the line was read, which may have been before it opened the file.
   */
  open(session: Session, start: string, at: Micros, held: readonly HeldPath[] | undefined): void {
    const open = { start, at };
    session.lastRequest = { kind: 'open-cut-off', open };
    // When a process logs a request, it has done the one before: what it still holds was not closed.
    this.#settle(session, held, held);
    const canBeAsked = (held ?? this.#options.heldBy(session.by.pid)) !== undefined;
    for (const parked of Array.from(session.parked)) if (isOfOne(parked.start, start)) this.#giveUp(session, parked);
    const shown = [...session.ahead].find(({ path }) => beginsLike(path, start));
    if (shown) {
      session.ahead.delete(shown);
      // It is the handle of this open if the process holds it still. If nobody can tell, it may be that of either.
      if (canBeAsked) return;
      session.forget(shown);
      this.#handles.withdraw(shown);
    }
    session.cutOff.add(open);
    this.#resolve(session, held);
    if (session.cutOff.has(open)) this.#askSoon(session);
  }

  /**
   * Asks the kernel again about opens and closes with cut-off names. Returns when to do so next, by the monotonic clock in
   * ms; undefined when nothing is open.
   */
  askAgain(): number | undefined {
    let next: number | undefined;
    const now = this.#options.monotonic();
    for (const [session, asking] of this.#asking) {
      if (asking.due <= now) {
        this.#settle(session, undefined);
        const pause = QUESTIONS_MS[(asking.count += 1)];
        if (pause === undefined) for (const parked of Array.from(session.parked)) this.#giveUp(session, parked);
        if (pause === undefined || session.cutOff.size + session.parked.length === 0) {
          this.#asking.delete(session);
          continue;
        }
        asking.due = now + pause;
      }
      if (next === undefined || asking.due < next) next = asking.due;
    }
    return next;
  }

  /** A folder was renamed, and with it files that were opened below it. */
  moved(sessions: Iterable<Session>, from: FilePath, to: FilePath): void {
    for (const session of sessions) {
      for (const open of session.cutOff) {
        const folder = open.movedTo ?? folderOf(open.start);
        if (folder?.startsWith(`${from}/`)) open.movedTo = to + folder.slice(from.length);
      }
    }
  }

  #askSoon(session: Session): void {
    this.#asking.set(session, { count: 0, due: this.#options.monotonic() + (QUESTIONS_MS[0] ?? 0) });
  }

  /**
   * Finds the files of opens, then the handles of closes, whose names the log has cut off.
   * @param after what the process held when it had done these closes; undefined to ask for what it holds now.
   */
  #settle(session: Session, held: readonly HeldPath[] | undefined, after?: readonly HeldPath[]): void {
    this.#resolve(session, held);
    for (const parked of Array.from(session.parked)) {
      const handle = this.#closed(session, namedLike(session, parked.start), { before: held, after, at: parked.at });
      if (handle) this.#endParked(session, parked, handle);
    }
  }

  #endParked(session: Session, parked: ParkedClose, handle: Handle): void {
    session.parked = session.parked.filter((each) => each !== parked);
    this.#endCutOff(session, handle, { isForced: false, at: parked.at });
  }

  /**
   * The kernel does not show which handle was closed: the file may have been opened again, or the handle that is known may
   * be that of an open that has not been read. A comparison with the disk finds the file.
   */
  #giveUp(session: Session, parked: ParkedClose): void {
    const { start, at } = parked;
    session.parked = session.parked.filter((each) => each !== parked);
    const cut = [...session.cutOff].find((each) => isOfOne(each.start, start));
    const [first] = namedLike(session, start).filter((each) => !session.ahead.has(each));
    if (cut) session.cutOff.delete(cut);
    else if (first) session.ahead.add(first);
    const about = { openedAt: cut?.at, inode: undefined, order: 0 };
    const end = this.#cutOffEnd(session, about, { isForced: false, at });
    this.#options.cutOff(cut ? beginningOf(cut) : start, end, session);
    this.#options.compare();
  }

  /** The session is over. `isSaid`: its process has closed all its handles. */
  end(session: Session, isSaid: boolean): void {
    this.#asking.delete(session);
    for (const parked of Array.from(session.parked)) {
      const named = namedLike(session, parked.start);
      const [handle] = named;
      const others = session.cutOff.values().filter((each) => isOfOne(each.start, parked.start));
      if (handle && (isSaid || named.length + [...others].length <= parkedLike(session, parked.start).length)) {
        this.#endParked(session, parked, handle);
        continue;
      }
      // Nobody can tell which of them was closed.
      for (const each of named) {
        session.forget(each);
        this.#handles.withdraw(each);
        session.cutOff.add({ start: parked.start, at: each.openedAt ?? parked.at });
      }
      this.#giveUp(session, parked);
    }
  }

  /** Finds the files of opens whose name the log has cut off. */
  #resolve(session: Session, held: readonly HeldPath[] | undefined): void {
    if (session.cutOff.size === 0) return;
    const all = session.all();
    const tracked = (each: HeldPath): number => all.filter(({ file, inode }) => file && inode === each.inode).length;
    // The second of two handles of one file is there twice.
    const now = this.#options.heldBy(session.by.pid) ?? [];
    const untracked = [held ?? [], now].flatMap((files) =>
      [...Map.groupBy(files, ({ inode }) => inode).values()].flatMap((same) =>
        same.slice(same[0] ? tracked(same[0]) : 0).map((each) => ({ ...each, isShownLater: files === now })),
      ),
    );
    for (const cut of Array.from(session.cutOff)) {
      const found = untracked.find((each) => beginsLike(each.path, beginningOf(cut)) && this.#isName(each));
      if (!found) continue;
      session.cutOff.delete(cut);
      const { inode, path, isShownLater } = found;
      untracked.splice(0, untracked.length, ...untracked.filter((each) => each.inode !== inode));
      const flags = { creates: false, truncates: false, isExclusive: false };
      const opening = { name: undefined, path: openedAs(cut, path), openedAt: cut.at, inode, isShownLater, ...flags };
      this.#handles.track(session, opening, this.#files.ensure(path));
    }
  }

  /**
   * Whether the kernel shows a file's name. Its folder may have another one by now: the log says that in a later line. A
   * file without a name is shown under its last one, followed by ` (deleted)`.
   */
  #isName({ path, inode, isShownLater }: HeldPath & { readonly isShownLater: boolean }): boolean {
    return (!isShownLater && !path.endsWith(' (deleted)')) || this.#options.lstat(path)?.ino === inode;
  }

  /**
   * A handle was closed whose name the log has cut off. If nobody knows which, the upload is lost, and a comparison with
   * the disk finds its file. Returns whether the handle was known.
   */
  close(
    session: Session,
    { start, isForced, held }: { start: string; isForced: boolean; held: readonly HeldPath[] | undefined },
    at: Micros,
  ): boolean {
    this.#settle(session, held);
    const named = namedLike(session, start);
    const parked = parkedLike(session, start);
    if (isForced && parked.length > 0 && named.length > 0) {
      // Nobody can tell which of them was closed before the connection broke.
      session.parked = session.parked.filter((each) => !parked.includes(each));
      for (const each of named) this.#endCutOff(session, each, { isForced, at });
      return true;
    }
    const handle = isForced ? named[0] : this.#closed(session, named, { before: held, at });
    if (handle) {
      this.#endCutOff(session, handle, { isForced, at });
      return true;
    }
    if (named.length > parked.length) {
      session.parked.push({ start, at });
      this.#askSoon(session);
      return true;
    }
    const cut = [...session.cutOff].find((each) => isOfOne(each.start, start));
    if (cut) session.cutOff.delete(cut);
    const about = { openedAt: cut?.at, inode: undefined, order: 0 };
    const end = this.#cutOffEnd(session, about, { isForced, at });
    this.#options.cutOff(cut ? beginningOf(cut) : start, end, session);
    return false;
  }

  #endCutOff(session: Session, handle: Handle, how: { readonly isForced: boolean; readonly at: Micros }): void {
    session.forget(handle);
    session.closedCutOff.unshift(handle.path);
    session.closedCutOff.length = Math.min(session.closedCutOff.length, CLOSED);
    this.#handles.ended(handle, this.#cutOffEnd(session, handle, how));
  }

  #cutOffEnd(
    session: Session,
    about: Pick<Handle, 'openedAt' | 'inode' | 'order'> & { readonly isRefused?: boolean },
    { isForced, at }: { readonly isForced: boolean; readonly at: Micros },
  ): Ending {
    return {
      ...droppedAt(session, about, at),
      isComplete: !isForced && about.isRefused !== true,
      isRefused: !isForced && about.isRefused === true,
      isUnproven: at < this.#options.provenFrom,
      isOfUnknownSize: true,
    };
  }

  /**
   * Which of the handles was closed: one that the process does not hold any more. Of several, the one that it had given up
   * when the line was read, then the one whose file was changed first. Undefined if the kernel does not show it: the file
   * of an open that was read late may be that of a later one.
   * @param before what the process held when the line was read.
   * @param after what it held afterwards; undefined to ask for what it holds now.
   */
  #closed(
    session: Session,
    named: readonly Handle[],
    {
      before,
      after,
      at,
    }: { before: readonly HeldPath[] | undefined; after?: readonly HeldPath[] | undefined; at: Micros },
  ): Handle | undefined {
    const [only] = named;
    const isKnown = only?.isShownLater !== true && at - (only?.openedAt ?? at) > LOG_LAG;
    if (named.length === 1 && session.cutOff.size === 0 && isKnown) return only;
    const now = after ?? this.#options.heldBy(session.by.pid);
    // The kernel shows each of a file's handles.
    const lacks = (files: readonly HeldPath[] | undefined, { inode }: Handle, among: readonly Handle[]): boolean => {
      const handles = among.filter((each) => each.file && each.inode === inode).length;
      return files !== undefined && files.filter((file) => file.inode === inode).length < handles;
    };
    const all = session.all();
    const early = all.filter((each) => each.isShownLater !== true);
    const wasGivenUp = (handle: Handle): boolean => early.includes(handle) && lacks(before, handle, early);
    const changed = ({ path }: Handle): number => this.#options.lstat(path)?.ctimeMs ?? 0;
    const [first] = named
      .filter((handle) => wasGivenUp(handle) || lacks(now, handle, all))
      .toSorted((a, b) => Number(wasGivenUp(b)) - Number(wasGivenUp(a)) || changed(a) - changed(b));
    return first;
  }

  /** The process died, and the log has cut off which files it had opened. */
  drop(session: Session, at: Micros): void {
    for (const open of session.cutOff) {
      const about = { openedAt: open.at, inode: undefined, order: 0 };
      this.#options.cutOff(beginningOf(open), droppedAt(session, about, at), session);
      this.#options.compare();
    }
  }

  /** A client set the times or the size of a file whose name the log has cut off. */
  set(session: Session, start: string): void {
    session.hasSetCutOff = true;
    const open = session.all().flatMap(({ file }) => (file?.path !== undefined ? [file.path] : []));
    for (const path of new Set([...open, ...session.closedCutOff])) {
      if (!beginsLike(path, start)) continue;
      const file = this.#files.ensure(path);
      file.setAt = this.#options.monotonic();
      if (!file.hasOpenWriters) this.#options.look(path, 2);
    }
  }
}

/** The session's handles of files that a name with this beginning may mean. */
function namedLike(session: Session, start: string): Handle[] {
  return session.all().filter(({ file, path }) => file && beginsLike(path, start));
}

/** The session's closes that wait and may be of a handle that a name with this beginning means. */
function parkedLike(session: Session, start: string): ParkedClose[] {
  return session.parked.filter((each) => isOfOne(each.start, start));
}

/** The path of a file when it was opened. */
function openedAs({ start, movedTo }: CutOffOpen, path: FilePath): FilePath {
  return movedTo === undefined ? path : (folderOf(start) ?? '') + path.slice(movedTo.length);
}

/** Whether the log may have cut two beginnings off one name. A beginning may have the whole name, and wording after it. */
function isOfOne(a: string, b: string): boolean {
  const [one, other] = [wholeName(a), wholeName(b)];
  if (one !== undefined && other !== undefined) return one === other;
  if (one !== undefined) return one.startsWith(b);
  if (other !== undefined) return other.startsWith(a);
  return a.startsWith(b) || b.startsWith(a);
}

/** The name that the log has followed by its own wording, `" flags` or `" bytes`; undefined if the name was cut off. */
function wholeName(start: string): string | undefined {
  return /^(.*)"(?: (?:[fb][^"]*)?)?$/s.exec(start)?.[1];
}
