/**
 * The ledger: what is known of each path that nobody has looked at yet. The log puts in what it says of handles and
 * names, the watcher and scans put in paths alone.
 *
 * Promise: evidence stays with its file, whatever that is called meanwhile, until a look has settled it. In memory only:
 * after a crash the scan at the start finds what was not settled.
 */
import type { Micros } from '../../clock.ts';
import type { FilePath, IsTemporary } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { BySession, Close, Handle, HandleEnd, Removal, Rename } from './evidence.ts';
import { GONE_REST } from './look.ts';
import type { Change, Entry } from './namespace.ts';
import type { Schedule } from './schedule.ts';

/** How long after a client set times or a size their change may show, in ms. */
const SET_SHOWS = 3000;

/** Entries that are looked through for writers when a folder is renamed. */
const WRITERS_BELOW = 200;

export interface LedgerOptions {
  readonly schedule: Schedule;
  readonly isTemporary: IsTemporary;
  /** Whether the kernel knows a handle whose open is in doubt. */
  exists(handle: Handle): boolean;
  /** An upload has ended whose file has no name, as far as the log tells. */
  nameless(directoryId: string, close: Close): void;
}

export class Ledger {
  readonly #options: LedgerOptions;
  readonly #schedule: Schedule;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#schedule = options.schedule;
  }

  /** A file is opened for writing. */
  open(jail: Jail, handle: Omit<Handle, 'entry'>): Handle {
    const opened = { ...handle, entry: this.#entryOf(jail, handle.path) };
    opened.entry.writers.add(opened);
    return opened;
  }

  /** A handle has gone. `end` is undefined when it changed nothing. */
  release(handle: Handle, end: HandleEnd | undefined): void {
    const { entry, order, openedAt, inode } = handle;
    if (!entry) return;
    entry.writers.delete(handle);
    if (end) {
      const before = entry.newestEnd;
      const newest = before && before.order > order ? before : { ...end, path: '', openedAt, inode, order };
      entry.newestEnd = { ...newest, isUnwritten: end.isUnwritten && before?.isUnwritten !== false };
    }
    // What another's process does by now does not matter: the log tells the ends in their order.
    if ([...entry.writers].some((other) => !other.isDoubtful || this.#options.exists(other))) return;
    const { newestEnd } = entry;
    entry.newestEnd = undefined;
    // The file is as the upload has left it that is yet to be looked at.
    const hasAddedNothing = newestEnd?.isUnwritten && entry.closes.at(-1)?.isComplete;
    if (!newestEnd || hasAddedNothing) return entry.directory.prune(entry);
    const path = entry.isAttached ? entry.path : handle.path;
    const close = { ...newestEnd, at: end?.at ?? newestEnd.at, path };
    // It was removed or replaced while it was written, or the log has its name wrong.
    if (!entry.isAttached) return this.#options.nameless(entry.directory.jail.id, close);
    entry.closes.push(close);
    entry.progress = {};
    this.#news(entry);
  }

  /** The handles that write files at a path or below it, of which many are not looked for. */
  *writersBelow(
    jail: Jail,
    path: FilePath,
  ): Generator<{ readonly path: FilePath; readonly handles: readonly Handle[] }> {
    const top = this.#schedule.namespaceOf(jail).find(path);
    const below = top ? [top] : [];
    for (let left = WRITERS_BELOW; left > 0; left -= 1) {
      const entry = below.pop();
      if (!entry) return;
      if (entry.writers.size > 0) yield { path: entry.path, handles: [...entry.writers] };
      below.push(...entry.children.values());
    }
  }

  /** Returns undefined for a request that cannot have done anything. */
  rename(jail: Jail, { from, to, by, at }: Rename & { readonly to: FilePath }): Change | undefined {
    const change = this.#schedule.namespaceOf(jail).rename(from, to);
    if (!change) return undefined;
    const { entry, replaced } = change;
    const { renames } = entry;
    entry.renames = [...renames, { from, by, at }];
    // Under a temporary name only the last upload counts, and it is complete when it gets its final one.
    const last = entry.closes.at(-1);
    const before = last && { path: last.path, from: last.from, at: last.at };
    const { isTemporary } = this.#options;
    if (last && isTemporary(last.path) && !isTemporary(to)) Object.assign(last, { path: to, from: last.path, at });
    entry.progress = {};
    this.#news(entry);
    const undo = (): void => {
      change.undo();
      entry.renames = renames;
      if (last) Object.assign(last, before);
      this.#newsOfPending(entry);
      if (replaced) this.#newsOfPending(replaced);
      this.#schedule.lookNow(this.#entryOf(jail, to)); // a look meant for the moved file has not looked there
    };
    return { entry, to, undo };
  }

  remove(jail: Jail, path: FilePath, by: BySession | undefined, at: Micros): Change {
    const names = this.#schedule.namespaceOf(jail);
    const change = names.remove(path);
    const { entry } = change;
    // Its row is still under a former name if it was renamed before a look.
    for (const former of [path, ...entry.formerly]) {
      const left = names.ensure(former);
      left.removal = { by, at };
      this.#news(left);
    }
    const undo = (): void => {
      const left = names.find(path);
      if (left) left.removal = undefined;
      change.undo();
      this.#newsOfPending(entry);
    };
    return { ...change, undo };
  }

  /** The file of a handle has no name any more. */
  lose({ entry }: Handle): void {
    if (entry) this.#schedule.namespaceOf(entry.directory.jail).remove(entry.path);
  }

  /** A client sets the size or the times of a file, by its path or through a handle. */
  set(jail: Jail, file: FilePath | Entry, { isSize }: { readonly isSize: boolean }): void {
    const entry = typeof file === 'string' ? this.#entryOf(jail, file) : file;
    const last = entry.closes.at(-1);
    if (last && isSize) last.isResized = true;
    entry.setUntil = performance.now() + SET_SHOWS;
    this.#news(entry);
  }

  /** Something may have happened to a path: it is looked at in so many ms. */
  touch(jail: Jail, path: FilePath, ms: number): void {
    const entry = this.#entryOf(jail, path);
    if (ms > 0) this.#schedule.lookLater(entry, ms);
    else this.#schedule.lookNow(entry);
  }

  /** Nothing seems to be at a path where something is recorded. */
  missing(jail: Jail, path: FilePath): void {
    const entry = this.#entryOf(jail, path);
    if (!entry.still || entry.still.stat) entry.still = { stat: undefined, since: performance.now() };
    this.#schedule.lookLater(entry, GONE_REST);
  }

  /** The session that left a file under a temporary name is over. */
  sessionEnded(jail: Jail, path: FilePath, end: Removal): void {
    const entry = this.#entryOf(jail, path);
    if (entry.sessionEnd) return; // each sweep says so
    entry.sessionEnd = end;
    this.#news(entry);
  }

  #entryOf(jail: Jail, path: FilePath): Entry {
    return this.#schedule.namespaceOf(jail).ensure(path);
  }

  #news(entry: Entry): void {
    entry.looks = 0;
    this.#schedule.lookNow(entry);
  }

  #newsOfPending(entry: Entry): void {
    if (entry.isPending) this.#news(entry);
  }
}
