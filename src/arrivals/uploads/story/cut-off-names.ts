/**
 * Tracks handles whose names sshd's log has cut off (`log-line.ts`). While a process lives, the kernel has the whole paths
 * of the files that it holds, so an open gets its file from there, and a close counts once the kernel no longer shows the
 * handle. A small file may be closed by then: `written-files.ts` finds it.
 *
 * Promise: a file counts as closed only if its process lived on without it, or if the session has closed all its handles. A
 * comparison with the disk decides what the kernel cannot tell.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import { baseName, beginsLike, filePath, type FilePath, folderOf, withoutSuffix } from '../file-path.ts';
import type { FileAlike } from '../log/journal-record.ts';
import type { HeldPath } from '../processes.ts';
import { type FileStat, fileStat, LOG_LAG } from '../record/file-stat.ts';
import { cutLike, isOfOne, namedLike, noteHeld, openedAs, parkedLike, untracked } from './alike.ts';
import { droppedAt, type Handles, type HandlesOptions } from './handles.ts';
import type { Ending } from './operations.ts';
import { beginningOf, type CutOffClose, type CutOffOpen, type Handle, type Session } from './sessions.ts';
import type { TrackedFiles } from './tracked-files.ts';
import { WrittenFiles, type Written } from './written-files.ts';

/** How many files are remembered by their whole names after a close whose name the log has cut off. */
const CLOSED = 20;

/** When to ask the kernel again about a name that the log has cut off, in ms after the last time. */
const QUESTIONS_MS = [2, 5, 20, 50, 200, 700];

/** By then a rename has been done that sshd has logged, in ms. */
const RENAME_MS = 50;

/** What a close may be of. */
interface Candidates {
  /** Handles that are known. */
  readonly named: readonly Handle[];
  /** An open whose file the kernel has not shown. */
  readonly cut: CutOffOpen | undefined;
}

/** A name that the log has cut off after `start`. */
interface ShownName {
  readonly start: string;
  /** What the process held of the files that it may mean, when its line was read; undefined if nobody can say. */
  readonly held: readonly HeldPath[] | undefined;
}

/** Another session of the directory. */
interface Other {
  readonly session: Session;
  /** The kernel cannot be asked about its process. */
  readonly isGone: boolean;
  /** What it may have open. */
  readonly inodes: ReadonlySet<number | undefined>;
}

export interface CutOffNamesOptions extends HandlesOptions {
  /** Whether the kernel shows the time of the current line: it was read a moment ago, and by no process before. */
  isFresh(): boolean;
  sessions(): Iterable<Session>;
}

export class CutOffNames {
  readonly #options: CutOffNamesOptions;
  readonly #files: TrackedFiles;
  readonly #handles: Handles;
  readonly #written = new WrittenFiles();
  /** Sessions of which the kernel is asked again, how often it was asked, and when next, by the monotonic clock in ms. */
  readonly #asking = new Map<Session, { count: number; due: number }>();

  constructor(options: CutOffNamesOptions, files: TrackedFiles, handles: Handles) {
    this.#options = options;
    this.#files = files;
    this.#handles = handles;
  }

  /** How many closes wait until the kernel shows them. */
  get waiting(): number {
    const late = [...this.#options.sessions()].reduce((sum, session) => sum + session.late.length, 0);
    return this.#asking.keys().reduce((sum, session) => sum + session.parked.length, late);
  }

  /**
   * A name was opened that the log has cut off. While the process lives, the kernel has the whole path. A handle that
   * only reads is not tracked.
   * @param held what the process held when the line was read, which may have been before it opened the file.
   */
  open(session: Session, start: string, at: Micros, held: readonly HeldPath[] | undefined): void {
    const open = { start, at };
    session.lastRequest = { kind: 'open-cut-off', open };
    session.doubtedCutOff = session.doubtedCutOff.filter((each) => !isOfOne(each.start, start));
    if (held) noteHeld(session, start, held);
    // When a process logs a request, it has done the one before: what it still holds was not closed.
    this.#settle(session, { start, held }, true);
    const canBeAsked = (held ?? this.#options.heldBy(session.by.pid)) !== undefined;
    for (const parked of Array.from(session.parked))
      if (isOfOne(parked.start, start)) this.#giveUp(session, parked, true);
    const shown = [...session.ahead].find(({ path }) => beginsLike(path, start));
    if (shown) {
      session.ahead.delete(shown);
      // A refusal before this line has nothing to do with it.
      shown.isRefused = false;
      shown.mayBeShort = false;
      // It is the handle of this open, unless the kernel shows another one. If nobody can tell, it may be that of either.
      const others = untracked(session, session.held).filter(({ path }) => beginsLike(path, start));
      if (canBeAsked && (others.length === 0 || session.held.some(({ inode }) => inode === shown.inode))) return;
      if (!canBeAsked) {
        session.forget(shown);
        this.#handles.withdraw(shown);
      }
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
        this.#settle(session);
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

  /** The kernel shows files that the process holds. The lines of their opens have been read, or were lost. */
  shown(session: Session, held: readonly HeldPath[]): void {
    this.#resolve(session, held);
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
   * @param line a name that the log has just shown, and what the process held then of files that it may mean. `isOpened`: it has
   *   done what it was asked before, so a later close has not given these up.
   */
  #settle(session: Session, line?: ShownName, isOpened = false): void {
    this.#resolve(session, line?.held);
    for (const parked of Array.from(session.parked)) {
      const held = line && isOfOne(parked.start, line.start) ? line.held : undefined;
      const after = isOpened ? held : undefined;
      const handle = this.#closed(session, namedLike(session, parked.start), { before: held, after, at: parked.at });
      if (handle) this.#endParked(session, parked, handle);
    }
  }

  /** Whether the kernel cannot say what the process holds: it has ended, or has too many files open. */
  #cannotBeAsked({ by }: Session): boolean {
    return this.#options.heldBy(by.pid) === undefined;
  }

  /** What the process holds now. If the current line is not fresh, that says nothing of its time: `then`. */
  #heldNow({ by }: Session, then: readonly HeldPath[] | undefined): readonly HeldPath[] | undefined {
    return this.#options.isFresh() ? this.#options.heldBy(by.pid) : then;
  }

  #endParked(session: Session, parked: CutOffClose, handle: Handle): void {
    session.parked = session.parked.filter((each) => each !== parked);
    this.#end(session, handle, parked);
  }

  /**
   * The kernel does not show which handle was closed: the file may have been opened again, or the handle that is known may
   * be that of an open that has not been read.
   * @param isReopened whether the kernel may show a later handle of the same file.
   */
  #giveUp(session: Session, parked: CutOffClose, isReopened = false): void {
    const cut = cutLike(session, parked);
    const [first, second] = namedLike(session, parked.start).filter((each) => !session.ahead.has(each));
    const candidates = { named: first ? [first] : [], cut };
    const found = this.#changed(session, candidates, parked);
    // If the process has gone, no other handle can be meant.
    const isOnly = !cut && first && !second && (isReopened || this.#cannotBeAsked(session));
    // A handle that has changed nothing was read only, and the kernel shows the next one.
    const isUnwritten = isReopened && this.#written.isUnchanged(parked.alike, first?.inode);
    if (isOnly && found === 'none' && !isUnwritten) return this.#endParked(session, parked, first);
    session.parked = session.parked.filter((each) => each !== parked);
    if (found && found !== 'none') return this.#endWritten(session, found.file, candidates, parked);
    // One of several was closed, and the end of the session may say that the others were not.
    if ((second || (first && cut)) && this.#cannotBeAsked(session))
      return void session.late.push({ close: parked, cut: undefined });
    this.#expect(session, candidates);
    if (isUnknown(found, candidates)) this.#lose(session, parked, candidates);
  }

  /** The session is over. `isSaid`: its process has closed all its handles. */
  end(session: Session, isSaid: boolean): void {
    this.#asking.delete(session);
    for (const { close, cut } of session.late) {
      const candidates = { named: cut ? [] : namedLike(session, close.start), cut };
      const found = isSaid ? this.#changed(session, candidates, { ...close, held: [] }) : undefined;
      if (found && found !== 'none') this.#endWritten(session, found.file, candidates, close);
      else if (isUnknown(found, candidates)) this.#lose(session, close, candidates);
    }
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
    const now = this.#heldNow(session, undefined) ?? [];
    const files = [held ?? [], now].flatMap((shown) =>
      untracked(session, shown).map((each) => ({ ...each, isShownLater: shown === now })),
    );
    for (const cut of Array.from(session.cutOff)) {
      const found = files.find((each) => beginsLike(each.path, beginningOf(cut)) && this.#isName(each));
      if (!found) continue;
      files.splice(0, files.length, ...files.filter(({ inode }) => inode !== found.inode));
      this.#track(session, cut, found, found.isShownLater);
    }
  }

  /** Tracks the handle of an open, of which the kernel has shown the file. */
  #track(session: Session, cut: CutOffOpen, { inode, path }: HeldPath, isShownLater = false): void {
    session.cutOff.delete(cut);
    if (isShownLater) session.held = [...session.held, { inode, path }];
    const opening = { path: openedAs(cut, path), openedAt: cut.at, inode, isShownLater };
    const handle = this.#handles.trackUnnamed(session, opening, path);
    handle.isRefused = cut.isRefused === true;
    handle.mayBeShort = cut.mayBeShort === true;
  }

  /**
   * Whether the kernel shows a file's name. Its folder may have another one by now: the log says that in a later line. A
   * file without a name is shown under its last one, followed by ` (deleted)`.
   */
  #isName({ path, inode, isShownLater }: HeldPath & { readonly isShownLater: boolean }): boolean {
    return (!isShownLater && !path.endsWith(' (deleted)')) || this.#options.lstat(path)?.ino === inode;
  }

  /** A handle was closed whose name the log has cut off. If nobody knows which, a comparison with the disk finds its file. */
  close(session: Session, close: CutOffClose): void {
    const { start, at, held } = close;
    // If nobody can say what the process holds, one of the files that it held was closed.
    if (!close.isForced) noteHeld(session, start, held ?? []);
    this.#settle(session, close);
    if (close.isForced) return this.#break(session, close);
    const named = namedLike(session, start);
    const parked = parkedLike(session, start);
    // A close proves that there was an open, although a refusal had followed it.
    const cut =
      cutLike(session, close) ??
      (named.length === 0 ? session.doubtedCutOff.findLast((each) => isOfOne(each.start, start)) : undefined);
    const candidates = { named, cut };
    const found = this.#isOnly(session, named, at) ? undefined : this.#changed(session, candidates, close);
    const written = found === 'none' ? undefined : found;
    if (written?.isCertain) return this.#endWritten(session, written.file, candidates, close);
    // A handle that the kernel has shown only after this line is that of a later open.
    const wasOpen = ({ inode, isShownLater }: Handle): boolean =>
      isShownLater !== true || held?.some((each) => each.inode === inode) === true;
    const sure = found ? named.filter(wasOpen) : named;
    const handle = this.#closed(session, sure, { before: held, at });
    if (handle) return this.#end(session, handle, close);
    if (sure.length > parked.length) {
      session.parked.push(close);
      return this.#askSoon(session);
    }
    if (written) return this.#endWritten(session, written.file, candidates, close);
    this.#expect(session, candidates);
    if (!isUnknown(found, candidates)) return;
    if (cut && !held && this.#cannotBeAsked(session)) session.late.push({ close, cut });
    else this.#lose(session, close, candidates);
  }

  /** The connection broke, and sshd closes a handle for its session. */
  #break(session: Session, close: CutOffClose): void {
    this.#adopt(session, close);
    const named = namedLike(session, close.start);
    const parked = parkedLike(session, close.start);
    // The kernel would have shown the file of an earlier one by now.
    const cut = [...session.cutOff].findLast((each) => isOfOne(each.start, close.start));
    const last = named.find(({ inode }) => session.held.some((each) => each.inode === inode));
    if (last && parked.length === 0) return this.#end(session, last, close);
    // If the file of an open is not known, that file was cut off, since the process had given up the others. If a close waits,
    // nobody can tell which of them was closed before the connection broke.
    const ending = cut && parked.length === 0 ? [] : named;
    session.parked = session.parked.filter((each) => !parked.includes(each));
    for (const each of ending) this.#end(session, each, close);
    if (cut) session.cutOff.delete(cut);
    if (!cut && ending.length === 0 && session.forced > 0) session.forced -= 1;
    else if (cut || ending.length === 0) this.#lose(session, close, { named: [], cut });
    session.forced += Math.max(ending.length + (cut ? 1 : 0) - 1, 0);
  }

  /** Tracks handles that the process had when the connection broke: it may have closed another one for the line that was read. */
  #adopt(session: Session, { start, at }: Pick<CutOffClose, 'start' | 'at'>): void {
    for (const each of untracked(session, session.held)) {
      if (!beginsLike(each.path, start)) continue;
      this.#track(session, cutLike(session, { start }) ?? { start, at }, each);
    }
  }

  /**
   * A close is not that of a known handle: it takes an open whose file is not known, or the handle's open is still to be read.
   * Returns what the log has said of the handle that was closed.
   */
  #expect(session: Session, { named, cut }: Candidates): CutOffOpen | Handle | undefined {
    if (cut) {
      session.cutOff.delete(cut);
      return cut;
    }
    const first = named.find((each) => !session.ahead.has(each));
    if (first) session.ahead.add(first);
    return first;
  }

  /** The disk shows which file a closed handle has written. */
  #endWritten(
    session: Session,
    { path, ino: inode, birthtimeMs: bornMs }: FileAlike,
    of: Candidates,
    close: CutOffClose,
  ) {
    const known = of.named.find((each) => each.inode === inode);
    if (known) return this.#end(session, known, close);
    const { isRefused = false, mayBeShort = false } = this.#expect(session, of) ?? {};
    const openedAt = of.cut?.at ?? of.named[0]?.openedAt;
    const handle = this.#handles.trackUnnamed(session, { path, openedAt, inode, bornMs }, path);
    handle.isRefused = isRefused;
    handle.mayBeShort = mayBeShort;
    this.#end(session, handle, close);
  }

  /** The file that a closed handle has written according to the disk, `'none'` if none. */
  #changed(session: Session, { named, cut }: Candidates, { held, alike }: CutOffClose): Written | 'none' | undefined {
    const opened = [...named.map(({ openedAt }) => openedAt), cut?.at].filter((each) => each !== undefined);
    // Most closes need no answer.
    let others: readonly Other[] | undefined;
    return this.#written.closed({
      held,
      alike,
      openedAt: opened.length > 0 ? Math.min(...opened) : undefined,
      isOwn: ({ ino }) => named.some(({ inode }) => inode === ino),
      isHeldElsewhere: (file) => isHeldByAny((others ??= this.#others(session)), file),
    });
  }

  /** The other sessions, and what they hold by the log and by the kernel. Asks about each process. */
  #others(session: Session): Other[] {
    const others = [...this.#options.sessions()].filter((other) => other !== session);
    return others.map((other) => {
      const held = this.#options.heldBy(other.by.pid);
      const opened = other.all().filter(({ file }) => file);
      const inodes = new Set([...opened, ...other.held, ...(held ?? [])].map(({ inode }) => inode));
      return { session: other, isGone: held === undefined, inodes };
    });
  }

  /** A handle ended, and nobody knows its file: a comparison with the disk finds it. */
  #lose(session: Session, close: CutOffClose, { named, cut }: Candidates): void {
    const { start, at, isForced } = close;
    const openedAt = cut?.at;
    if (isForced) this.#written.broke(start, openedAt ?? at, at);
    const all = [...(cut ? [cut] : []), ...named];
    const isRefused = all.some((each) => each.isRefused);
    const mayBeShort = all.some((each) => each.mayBeShort);
    const end = this.#endOf(session, { openedAt, inode: undefined, order: 0, isRefused, mayBeShort }, close);
    this.#options.cutOff(cut ? beginningOf(cut) : start, end, session);
    this.#options.compare();
  }

  #end(session: Session, handle: Handle, close: CutOffClose): void {
    session.forget(handle);
    const { inode, openedAt = close.at, path } = handle;
    session.held = session.held.filter((each) => each.inode !== inode);
    const isWhole = !close.isForced && !handle.isRefused;
    const seen = close.alike?.find(({ ino }) => ino === inode);
    if (seen) this.#written.ended(seen, isWhole);
    this.#mayChange(session, { path, at: close.at });
    if (!isWhole && inode !== undefined) this.#written.broke(path, openedAt, close.at, inode);
    session.closedCutOff.unshift({ path, at: close.at });
    session.closedCutOff.length = Math.min(session.closedCutOff.length, CLOSED);
    this.#handles.ended(handle, { ...this.#endOf(session, handle, close), seen: seen && statOf(seen) });
  }

  #endOf(
    session: Session,
    about: Pick<Handle, 'openedAt' | 'inode' | 'order' | 'isRefused' | 'mayBeShort'>,
    { isForced, at }: CutOffClose,
  ): Ending {
    return {
      ...droppedAt(session, about, at),
      isDoubted: about.mayBeShort === true,
      isComplete: !isForced && !about.isRefused,
      isRefused: !isForced && about.isRefused,
      isUnproven: at < this.#options.provenFrom,
      isOfUnknownSize: true,
    };
  }

  /** Whether the close can only be of one handle, which was open for so long that no other can be meant. */
  #isOnly(session: Session, named: readonly Handle[], at: Micros): boolean {
    const [only] = named;
    const isKnown = only?.isShownLater !== true && at - (only?.openedAt ?? at) > LOG_LAG;
    return named.length === 1 && session.cutOff.size === 0 && isKnown;
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
    if (this.#isOnly(session, named, at)) return named[0];
    const now = after ?? this.#heldNow(session, before);
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

  /** The process died. No other session has closed what it had open. Of some files the log has cut off the names. */
  drop(session: Session, at: Micros): void {
    for (const handle of session.all()) {
      const { file, path, inode, openedAt = at } = handle;
      if (file && inode !== undefined && !session.ahead.has(handle)) this.#written.broke(path, openedAt, at, inode);
    }
    const lose = (start: string, openedAt: Micros | undefined, inode: number | undefined): void => {
      this.#written.broke(start, openedAt ?? session.openedAt ?? at, at, inode);
      this.#options.cutOff(start, droppedAt(session, { openedAt, inode, order: 0 }, at), session);
      this.#options.compare();
    };
    for (const { path, inode } of untracked(session, session.held)) lose(path, undefined, inode);
    for (const open of session.mayBeOpen()) lose(beginningOf(open), open.at, undefined);
  }

  /** A client renamed a file whose name the log has cut off, or set its times or size. */
  touched(session: Session, start: string, at: Micros, alike: readonly FileAlike[] | undefined): void {
    const cut = session.cutOff.values().filter((each) => isOfOne(each.start, start));
    const opened = [...namedLike(session, start).map(({ openedAt }) => openedAt ?? at), ...cut.map((each) => each.at)];
    session.touchedCutOff = { start, at, openedAt: Math.max(...opened) };
    const latest = session.closedCutOff.find(({ path }) => beginsLike(path, start));
    if (latest) this.#mayChange(session, latest);
    if (opened.length === 0) this.#written.touched(alike, latest?.path);
  }

  /** Notes that a file which was closed changes once more, if a client has asked for that since. */
  #mayChange(
    { touchedCutOff: touched }: Session,
    { path, at }: { readonly path: FilePath; readonly at: Micros },
  ): void {
    if (touched && touched.at > at && touched.openedAt <= at && beginsLike(path, touched.start))
      this.#written.changes(path, touched.at);
  }

  /**
   * A client renamed a file, and the log does not have the new name. Most clients only take a suffix away, so that name is looked
   * at before a comparison with the disk finds the file.
   * @param alike the files that the old name may mean, before the rename or after it; undefined if these are too many to tell.
   */
  renamed(start: string, alike: readonly FileAlike[] = []): void {
    const [old = '', ...cut] = start.split('" new "');
    const named = cut.length > 0 ? filePath(old) : undefined;
    const paths = [...alike.map(({ path }) => path), ...(named === undefined ? [] : [named])];
    const { isTemporary, look } = this.#options;
    for (const path of new Set(paths.map((each) => (isTemporary(baseName(each)) ? withoutSuffix(each) : each))))
      look(path, RENAME_MS);
  }

  /**
   * A client set the times or the size of a file whose name the log has cut off.
   * @param alike the files that the name may mean; undefined if these are too many to tell.
   */
  set(session: Session, start: string, alike: readonly FileAlike[] | undefined): void {
    session.hasSetCutOff = true;
    this.#files.set(start);
    for (const { path } of alike ?? session.closedCutOff)
      if (beginsLike(path, start) && !this.#files.at(path)?.hasOpenWriters) this.#options.look(path, 2);
  }
}

/**
 * Whether nobody can tell which file was closed. If a write was refused, there was one, although nothing shows that it was
 * written: its lines may have been read late.
 */
function isUnknown(found: Written | 'none' | undefined, { named, cut }: Candidates): boolean {
  return !found || (found === 'none' && [...named, cut].some((each) => each?.isRefused));
}

/**
 * Whether one of these sessions may have the file open: its own close will say more. Undefined if one has opened a file like it,
 * and its process has ended.
 */
function isHeldByAny(others: readonly Other[], { path, ino }: FileAlike): boolean | undefined {
  if (others.some(({ inodes }) => inodes.has(ino))) return true;
  return others.some(({ session, isGone }) => isGone && session.mayHaveOpened(path)) ? undefined : false;
}

function statOf({ sinceMs, ...seen }: FileAlike): FileStat {
  return fileStat({ ...seen, ctimeMs: sinceMs ?? 0 });
}
