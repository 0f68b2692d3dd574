/**
 * The ledger: what is known of each path that somebody has yet to look at. The log puts in what it says of handles, the
 * watcher and scans put in paths alone; the recorder takes out what is due, looks at the disk, and decides.
 *
 * Promise: evidence stays with its file, whatever that is called meanwhile, until a look has settled it. In memory only:
 * after a crash the scan at the start finds what was not settled.
 */
import type { Micros } from '../../clock.ts';
import type { FilePath } from '../file-path.ts';
import type { IsTemporary } from '../temp-names.ts';
import type { BySession, Close, Removal } from './evidence.ts';
import type { Handle } from './handle.ts';
import { type Change, type Entry, Names } from './namespace.ts';

/** A directory, as its jail is found. */
export interface Place {
  readonly id: string;
  readonly sftp_username: string;
}

/** How finely later looks are timed, in ms. */
const TICK = 20;

/** How long after a client set times or a size their change may show, in ms. */
const SET_SHOWS = 3000;

/** How long a file has to be missing before its row goes, in ms: a move is two events. */
export const GONE_REST = 3000;

/** Of one directory at a time, so that others have their turn. */
const TURN = 16;

/** What a handle that has gone did to its file. */
export type HandleEnd = Pick<Close, 'isComplete' | 'at' | 'by' | 'bytes' | 'isDoubted'>;

export interface LedgerOptions {
  readonly isTemporary: IsTemporary;
  /** Whether a handle that nobody has closed exists: its process lives, and an open that seems to have failed did not. */
  stillWrites(handle: Handle): boolean;
  /** An upload has ended whose file has no name, as far as the log tells. */
  stray(directoryId: string, close: Close): void;
  /** Something is due. */
  onDue(): void;
}

export type Ledger = ReturnType<typeof createLedger>;

export function createLedger(options: LedgerOptions) {
  const directories = new Map<string, Names>();
  /** Directories with something due, in turn. */
  const inTurn = new Set<Names>();
  const later = new Map<number, Set<Entry>>();
  let now = tickOf(performance.now());
  let timer: NodeJS.Timeout | undefined;

  function namesOf({ id, sftp_username }: Place): Names {
    let names = directories.get(id);
    if (!names) {
      names = new Names(id, sftp_username);
      directories.set(id, names);
    }
    return names;
  }

  /** There is news of the entry: it is looked at as soon as possible. */
  function makeDue(entry: Entry): void {
    entry.looks = 0;
    lookNow(entry);
  }

  function lookNow(entry: Entry): void {
    if (entry.stage !== 'idle') return;
    entry.stage = 'due';
    entry.directory.due.add(entry);
    inTurn.add(entry.directory);
    options.onDue();
  }

  /** It is looked at in so many ms, or earlier when that was planned already. */
  function lookLater(entry: Entry, ms: number): void {
    const tick = tickOf(performance.now() + ms) + 1;
    if (entry.tick !== undefined && entry.tick <= tick) return;
    if (entry.tick !== undefined) later.get(entry.tick)?.delete(entry);
    entry.tick = tick;
    const together = later.get(tick) ?? new Set();
    later.set(tick, together.add(entry));
    timer ??= setInterval(turnTicks, TICK).unref();
  }

  function turnTicks(): void {
    const until = tickOf(performance.now());
    for (; now <= until; now += 1) {
      const ripe = later.get(now);
      later.delete(now);
      for (const entry of ripe ?? []) {
        entry.tick = undefined;
        lookNow(entry);
      }
    }
    if (later.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function settleAgain(change: Change): void {
    for (const entry of [change.entry, change.replaced]) {
      if (entry?.isPending) makeDue(entry);
    }
  }

  return {
    lookNow,
    lookLater,

    /** Somebody opens a file for writing. */
    open(place: Place, handle: Omit<Handle, 'entry'>): Handle {
      const entry = namesOf(place).ensure(handle.path);
      const opened = { ...handle, entry };
      entry.writers.add(opened);
      return opened;
    },

    /** A handle has gone. `end` is undefined when it changed nothing. */
    release(handle: Handle, end: HandleEnd | undefined): void {
      const { entry, order, openedAt, inode } = handle;
      if (!entry) return;
      entry.writers.delete(handle);
      const earlier = entry.verdict;
      if (end && (!earlier || earlier.order <= order)) {
        entry.verdict = { ...end, path: '', openedAt, inode, order };
      }
      if ([...entry.writers].some(options.stillWrites)) return;
      const { verdict } = entry;
      entry.verdict = undefined;
      if (verdict) {
        const close = { ...verdict, at: end?.at ?? verdict.at, path: entry.isAttached ? entry.path : handle.path };
        // What has no name any more was removed or replaced while it was written, or its name was told wrongly.
        if (!entry.isAttached) return options.stray(entry.directory.id, close);
        entry.closes.push(close);
        entry.seen = undefined;
        entry.synced = undefined;
        makeDue(entry);
      } else entry.directory.prune(entry);
    },

    /** A file was closed, of which only the beginning of the name was heard. */
    closed(place: Place, path: FilePath, end: HandleEnd): void {
      const entry = namesOf(place).ensure(path);
      entry.closes.push({ ...end, path, openedAt: undefined, inode: undefined, order: 0, isGuessed: true });
      entry.synced = undefined;
      makeDue(entry);
    },

    /** Returns what to undo should the request be refused; undefined when it cannot have done anything. */
    rename(place: Place, { from, to, by, at }: { from: FilePath; to: FilePath; by: BySession; at: Micros }) {
      const names = namesOf(place);
      const change = names.rename(from, to);
      if (!change) return undefined;
      const { entry } = change;
      const renames = entry.renames;
      entry.renames = [...renames, { from, by, at }];
      // Under a temporary name only the last upload counts, and it is complete when it gets its final one.
      const last = entry.closes.at(-1);
      const before = last && { path: last.path, from: last.from, at: last.at };
      if (last && options.isTemporary(last.path) && !options.isTemporary(to)) {
        Object.assign(last, { path: to, from: last.path, at });
      }
      entry.seen = undefined;
      entry.synced = undefined; // its name is another
      makeDue(entry);
      const undo = (): void => {
        change.undo();
        entry.renames = renames;
        if (last) Object.assign(last, before);
        settleAgain(change);
        lookNow(names.ensure(to)); // what is there was not looked at for its own sake
      };
      return { ...change, undo };
    },

    /** Returns what to undo should the request be refused. */
    remove(place: Place, path: FilePath, by: BySession | undefined, at: Micros): Change {
      const names = namesOf(place);
      const change = names.remove(path);
      // Where its row is, if it was renamed before anybody looked.
      for (const former of [path, ...change.entry.formerly]) {
        const left = names.ensure(former);
        left.removal = { by, at };
        makeDue(left);
      }
      const undo = (): void => {
        const left = names.find(path);
        if (left) left.removal = undefined;
        change.undo();
        settleAgain(change);
      };
      return { ...change, undo };
    },

    /** A client sets the size or the times of a file; `entry` when it does so through a handle. */
    set(place: Place, about: FilePath | Entry, { isSize }: { readonly isSize: boolean }): void {
      const entry = typeof about === 'string' ? namesOf(place).ensure(about) : about;
      const last = entry.closes.at(-1);
      if (last && isSize) last.isResized = true;
      entry.setUntil = performance.now() + SET_SHOWS;
      makeDue(entry);
    },

    /** Something may have happened to a path: to be looked at in so many ms. */
    touch(place: Place, path: FilePath, ms: number): void {
      const entry = namesOf(place).ensure(path);
      if (ms > 0) lookLater(entry, ms);
      else lookNow(entry);
    },

    /** Nothing seems to be at a path where something is recorded. */
    missing(place: Place, path: FilePath): void {
      const entry = namesOf(place).ensure(path);
      if (entry.rest?.stat !== undefined || !entry.rest) entry.rest = { stat: undefined, since: performance.now() };
      lookLater(entry, GONE_REST);
    },

    /** The session that left a file under a temporary name is over. */
    over(place: Place, path: FilePath, end: Removal): void {
      const entry = namesOf(place).ensure(path);
      entry.over = end;
      makeDue(entry);
    },

    /** The next entries to look at, directories in turn. */
    take(limit: number): Entry[] {
      const taken: Entry[] = [];
      while (taken.length < limit) {
        const [names] = inTurn;
        if (!names) break;
        inTurn.delete(names);
        let left = Math.min(TURN, limit - taken.length);
        for (const entry of names.due) {
          if (left === 0) break;
          left -= 1;
          names.due.delete(entry);
          entry.stage = 'preparing';
          names.preparing += 1;
          taken.push(entry);
        }
        if (names.due.size > 0) inTurn.add(names);
      }
      return taken;
    },

    /** A look that `take` began is over. */
    done(entry: Entry): void {
      entry.stage = 'idle';
      entry.directory.preparing -= 1;
      const setFor = entry.setUntil - performance.now();
      if (setFor > 0) lookLater(entry, setFor + TICK);
      entry.directory.prune(entry);
      if (entry.directory.isEmpty) directories.delete(entry.directory.id);
    },

    /** Entries on their way to the database, of one directory or of all. */
    pending(directoryId?: string): number {
      if (directoryId !== undefined) return pendingOf(directories.get(directoryId));
      let sum = 0;
      for (const names of directories.values()) sum += pendingOf(names);
      return sum;
    },

    close(): void {
      clearInterval(timer);
    },
  };
}

function pendingOf(names: Names | undefined): number {
  return names ? names.due.size + names.preparing : 0;
}

function tickOf(ms: number): number {
  return Math.floor(ms / TICK);
}
