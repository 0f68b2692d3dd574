/**
 * Which entries are to be looked at, and when. Directories take turns, so that a busy one does not hold up the others.
 * An entry is looked at once at a time, and nothing is kept of a directory of which nothing is known.
 */
import type { Jail } from '../jails.ts';
import { type Entry, Namespace } from './namespace.ts';

/** Entries of one directory before it is the next one's turn. */
const TURN = 16;

export class Schedule {
  readonly #directories = new Map<string, Namespace>();
  /** Directories with something due, in turn. */
  readonly #inTurn = new Set<Namespace>();
  readonly #onDue: () => void;
  #isClosed = false;

  constructor(onDue: () => void) {
    this.#onDue = onDue;
  }

  namespaceOf(jail: Jail): Namespace {
    let names = this.#directories.get(jail.id);
    if (!names) {
      names = new Namespace(jail);
      this.#directories.set(jail.id, names);
    }
    return names;
  }

  /** A look that is under way is repeated when it has seen the disk already. */
  lookNow(entry: Entry): void {
    if (entry.directory.underWay.has(entry)) entry.hasNews = true;
    if (entry.isQueued || this.#isClosed) return;
    entry.directory.due.add(entry);
    this.#inTurn.add(entry.directory);
    this.#onDue();
  }

  /** The entry is looked at in so many ms, or earlier when that was planned already. */
  lookLater(entry: Entry, ms: number): void {
    const at = performance.now() + ms;
    if (entry.later && entry.later.at <= at) return;
    clearTimeout(entry.later?.timer);
    const timer = setTimeout(() => {
      entry.later = undefined;
      entry.directory.planned.delete(entry);
      this.lookNow(entry);
    }, ms).unref();
    entry.later = { at, timer };
    entry.directory.planned.add(entry);
  }

  /** The next entries to look at. End each look with `done`. */
  take(limit: number): Entry[] {
    const taken: Entry[] = [];
    for (const names of this.#inTurn) {
      if (taken.length >= limit) break;
      this.#inTurn.delete(names);
      for (const entry of names.due.values().take(Math.min(TURN, limit - taken.length))) {
        names.due.delete(entry);
        names.underWay.add(entry);
        taken.push(entry);
      }
      if (names.due.size > 0) this.#inTurn.add(names);
    }
    return taken;
  }

  done(entry: Entry): void {
    const { directory } = entry;
    directory.underWay.delete(entry);
    // What a client set may show late.
    const setFor = entry.setUntil - performance.now();
    if (setFor > 0) this.lookLater(entry, Math.ceil(setFor) + 1);
    const { hasNews } = entry;
    entry.hasNews = false;
    if (hasNews) this.lookNow(entry);
    directory.prune(entry);
    if (directory.isEmpty) this.#directories.delete(directory.jail.id);
  }

  /** Looks that are due or under way, of one directory or of all. */
  pending(directoryId?: string): number {
    if (directoryId !== undefined) return this.#directories.get(directoryId)?.pending ?? 0;
    let sum = 0;
    for (const { pending } of this.#directories.values()) sum += pending;
    return sum;
  }

  /** Whether what the log has told of a directory has been acted upon, but for handles that are still open. */
  isSettled(directoryId: string): boolean {
    return this.#directories.get(directoryId)?.isSettled ?? true;
  }

  close(): void {
    this.#isClosed = true;
  }
}
