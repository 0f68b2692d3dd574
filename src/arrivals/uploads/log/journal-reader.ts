/**
 * Reads the journal: each user's records in order, users in turn, as fast as their consumer keeps up. Unread records wait in
 * the files, so a user with many records delays only themselves, and nothing overflows.
 *
 * Promise: each record is handed over at least once. When all records before a position are decided, the journal is
 * compacted there, and the next process begins with the state at that position. After a crash, later records are read again,
 * and the consumer has to recognize those that it has already recorded.
 */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { isOutOfDescriptors } from '../../../foundation/base/errors.ts';
import { yielder } from '../../../foundation/base/event-loop.ts';
import { Turns } from '../../../foundation/base/turns.ts';
import type { Jail } from '../jails.ts';
import type { Beginning } from './journal-files.ts';
import { linesOf, PIECE, readBase } from './journal-pieces.ts';
import { type JournalRecord, type Known, type LineRecord, type Position, readRecord } from './journal-record.ts';
import type { JournalFollower, TransferLog } from './transfer-log.ts';
import type { News } from './transfer-log-worker.ts';

/** Some bytes of a record, which say about how many a user still has. */
const RECORD: Position = 256;

/** The pause between two turns of a busy directory, and between tries that failed, in ms. */
const PAUSE_MS = 5;
const RETRY_MS = 500;

/** How many more records a look waits for at most before it decides. */
const AHEAD = 1000;

/**
 * How long to wait before a journal is compacted, in ms, and the length beyond which no further records are read until
 * these are decided, unless a caller waits for them.
 */
const COMPACT_AFTER_MS = 1000;
const LONG: Position = 4 * 2 ** 20;

/** Consumes the records. The reader keeps the positions and recovers after a crash. */
export interface RecordConsumer {
  /** The directory of a user; undefined when there is none. Waits until the database answers. */
  jailOf(user: string): Promise<Jail | undefined>;
  /** Restores the state at the beginning of a journal. Called before any of its records. */
  restore(jail: Jail, known: Known): void;
  /**
   * Takes the next record. Returns a promise to wait for before the one after, if any.
   * @param isRepeated whether an earlier process may have followed the record.
   */
  follow(jail: Jail, record: LineRecord, isRepeated: boolean): Promise<void> | undefined;
  /**
   * Called when all records that an earlier process left have been followed. Resolves when the state of their sessions
   * has been checked.
   */
  restored(jail: Jail): Promise<void>;
  /** Called where records are missing. Only the disk shows what happened until then. */
  lost(jail: Jail, until: number): void;
  /** Whether the directory's records should come slowly. */
  isBusy(directoryId: string): boolean;
  /**
   * Whether everything that was followed has been written, except for the state that `known` returns.
   * @param isUrgent the disk has no room, so things that would only be useful later do not count.
   */
  isDecided(directoryId: string, isUrgent?: boolean): boolean;
  /** The state that a later process needs to go on from here; undefined for none. */
  known(jail: Jail): Known | undefined;
  /** Called when a record could not be followed. */
  failed(error: unknown): void;
}

export interface JournalReaderOptions {
  readonly folder: string;
  readonly transferLog: Pick<TransferLog, 'compact' | 'isFull'>;
  readonly consumer: RecordConsumer;
  readonly signal: AbortSignal;
}

/** One user's journal. */
interface Part {
  readonly user: string;
  jail?: Jail | undefined;
  end: Position;
  /** The end of the records that an earlier process left; undefined when they have been consumed. */
  restoresTo: Position | undefined;
  /** Whether the sessions of an earlier process have been checked. */
  isChecked: boolean;
  /** Where the next read begins; undefined before the first. */
  next: Position | undefined;
  /** The position of the base, and the length of its line in bytes. */
  base: Position;
  baseLength: number;
  /** Records that have been read but not followed, each with the position where it ends. */
  readonly ready: { readonly record: JournalRecord; readonly end: Position }[];
  followed: Position;
  /** Records that were followed by this process. */
  count: number;
  waiters: { readonly position: Position; readonly count: number; readonly resolve: () => void }[];
  isPaused: boolean;
  isCompacting: boolean;
  /** Whether the last compaction has left a base. Without one, a completely consumed journal has been deleted. */
  keepsBase: boolean;
  timer: NodeJS.Timeout | undefined;
}

export class JournalReader implements JournalFollower {
  readonly #options: JournalReaderOptions;
  readonly #consumer: RecordConsumer;
  readonly #parts = new Map<string, Part>();
  readonly #inTurn = new Turns<Part>();
  readonly #marks: (text: string) => void;
  #isFirst = true;
  #running: Promise<void> | undefined;

  /** @param mark called with each mark that comes back. */
  constructor(options: JournalReaderOptions, mark: (text: string) => void) {
    this.#options = options;
    this.#consumer = options.consumer;
    this.#marks = mark;
    options.signal.addEventListener('abort', () => this.#parts.forEach((part) => release(part, true)));
  }

  news(news: News): void {
    for (const [user, end] of news) {
      const part = this.#partOf(user);
      part.end = end;
      if (this.#isFirst) part.restoresTo = end;
      this.#goOn(part);
    }
    this.#isFirst = false;
  }

  mark(text: string): void {
    this.#marks(text);
  }

  compacted(user: string, beginning: Beginning | undefined): void {
    const part = this.#parts.get(user);
    if (!part) return;
    part.isCompacting = false;
    if (!beginning) return void this.#pause(part, RETRY_MS);
    if (part.end === part.followed && !part.keepsBase) return this.#forget(part);
    Object.assign(part, beginning);
    this.#goOn(part);
  }

  /** Whether an earlier process's records of the user have yet to be followed, or its sessions to be checked. */
  isRestoring(user: string): boolean {
    const part = this.#parts.get(user);
    return part !== undefined && isRestoring(part);
  }

  /** Resolves when all records of an earlier process have been followed and its sessions checked. */
  async allRestored(): Promise<void> {
    const { signal } = this.#options;
    while ([...this.#parts.values()].some(isRestoring) && !signal.aborted)
      await setTimeout(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }

  /** The user's records may have been decided without a further record: tries to compact the journal soon. */
  revisit(user: string): void {
    const part = this.#parts.get(user);
    if (part) this.#compactLater(part);
  }

  /**
   * Resolves once the records that the user's journal has now have been followed, or `AHEAD` of them, which are enough
   * to explain a look.
   */
  async passed(user: string): Promise<void> {
    const part = this.#parts.get(user);
    if (!part || part.followed >= part.end || this.#options.signal.aborted) return;
    await new Promise<void>((resolve) => {
      part.waiters.push({ position: part.end, count: part.count + AHEAD, resolve });
      this.#goOn(part);
    });
  }

  /** Compacts what is decided. Call it after the signal. */
  async close(): Promise<void> {
    await this.#running;
    for (const part of this.#parts.values()) {
      clearTimeout(part.timer);
      this.#compact(part, true);
    }
  }

  #partOf(user: string): Part {
    const known = this.#parts.get(user);
    if (known) return known;
    const part: Part = {
      user,
      end: 0,
      restoresTo: undefined,
      isChecked: true,
      next: undefined,
      base: 0,
      baseLength: 0,
      ready: [],
      followed: 0,
      count: 0,
      waiters: [],
      isPaused: false,
      isCompacting: false,
      keepsBase: false,
      timer: undefined,
    };
    this.#parts.set(user, part);
    return part;
  }

  #goOn(part: Part): void {
    if (part.isPaused || part.isCompacting || this.#options.signal.aborted) return;
    this.#inTurn.add(part, (part.end - part.followed) / RECORD);
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // runs later, so that `#running` is set before it is cleared
    const pause = yielder();
    for (let part = this.#inTurn.take(); part; part = this.#inTurn.take()) {
      if (this.#options.signal.aborted) break;
      try {
        await this.#turn(part, pause);
      } catch (error) {
        this.#consumer.failed(error);
        void this.#pause(part, RETRY_MS);
      }
    }
    this.#running = undefined;
  }

  async #turn(part: Part, pause: () => Promise<void> | undefined): Promise<void> {
    if (part.next === undefined && !(await this.#begin(part))) return;
    const { jail } = part;
    if (!jail) return;
    const isLong = part.followed - part.base > LONG && !this.#consumer.isDecided(jail.id);
    const isBusy = this.#consumer.isBusy(jail.id) || isLong;
    // A busy directory's looks may wait for these records, so they are only slowed down.
    if (!isBusy || part.waiters.length > 0) {
      let rest: Promise<void> | undefined;
      while (!rest && (await this.#followNext(part, jail))) rest = pause();
      await rest;
    }
    if (part.followed < part.end) {
      if (isBusy) return void this.#pause(part, PAUSE_MS);
      if (part.followed - part.base > LONG) this.#compact(part);
      return this.#goOn(part);
    }
    this.#compactLater(part);
  }

  /** Reads the base. Returns false when the directory has been deleted. */
  async #begin(part: Part): Promise<boolean> {
    part.jail = await this.#consumer.jailOf(part.user);
    if (!part.jail) {
      // Drop its journal.
      part.followed = part.end;
      this.#options.transferLog.compact(part.user, part.end, undefined);
      part.isCompacting = true;
      release(part, true);
      return false;
    }
    const { base, length, ...known } = this.#withFile(part.user, readBase) ?? { base: 0, length: 0 };
    Object.assign(part, { base, baseLength: length, next: base, followed: base });
    this.#consumer.restore(part.jail, known);
    this.#finishRestoring(part);
    return true;
  }

  async #followNext(part: Part, jail: Jail): Promise<boolean> {
    if (part.ready.length === 0) this.#readMore(part, jail);
    const next = part.ready.shift();
    if (!next) return false;
    try {
      if (next.record.isGap) this.#consumer.lost(jail, next.record.at);
      else await this.#consumer.follow(jail, next.record, part.restoresTo !== undefined);
    } catch (error) {
      this.#consumer.failed(error);
    }
    part.followed = next.end;
    part.count += 1;
    release(part);
    this.#finishRestoring(part);
    return true;
  }

  #finishRestoring(part: Part): void {
    if (part.restoresTo === undefined || part.followed < part.restoresTo || !part.jail) return;
    part.restoresTo = undefined;
    part.isChecked = false;
    void this.#consumer.restored(part.jail).finally(() => (part.isChecked = true));
  }

  #readMore(part: Part, jail: Jail): void {
    const from = part.next ?? part.base;
    if (from >= part.end || part.isCompacting) return;
    const start = from - part.base + part.baseLength;
    let position = from;
    this.#withFile(part.user, (file) => {
      for (const { text, end } of linesOf(file, start)) {
        position = from + end - start;
        const record = text === '' ? undefined : readRecord(text);
        if (record) part.ready.push({ record, end: position });
        else if (text !== '') this.#consumer.lost(jail, Date.now() * 1000);
        if (position >= part.end || position - from >= PIECE) return;
      }
    });
    // The disk has lost records, or the file holds no complete line.
    if (position === from) {
      this.#consumer.lost(jail, Date.now() * 1000);
      position = part.end;
    }
    part.next = position;
    const last = part.ready.at(-1);
    if (last) part.ready[part.ready.length - 1] = { ...last, end: position };
    else part.followed = position;
  }

  /**
   * Reads the user's file. Returns undefined when there is none.
   * @throws the system's error: no descriptor is left. It is tried again.
   */
  #withFile<T>(user: string, read: (file: number) => T): T | undefined {
    let file: number;
    try {
      file = openSync(join(this.#options.folder, user), 'r');
    } catch (error) {
      if (isOutOfDescriptors(error)) throw error;
      return undefined;
    }
    try {
      return read(file);
    } finally {
      closeSync(file);
    }
  }

  #compactLater(part: Part): void {
    if (this.#options.signal.aborted) return;
    part.timer ??= globalThis
      .setTimeout(() => {
        part.timer = undefined;
        if (!this.#compact(part) && part.jail) this.#compactLater(part);
      }, COMPACT_AFTER_MS)
      .unref();
  }

  /**
   * Compacts the journal if all consumed records are decided. Returns false when it has to be tried again.
   * @param isLast this process will not compact again, so a small gain is enough.
   */
  #compact(part: Part, isLast = false): boolean {
    const { jail, user } = part;
    if (!jail || part.isCompacting || part.next === undefined || this.#parts.get(user) !== part) return true;
    if (part.restoresTo !== undefined || !this.#consumer.isDecided(jail.id, this.#options.transferLog.isFull()))
      return false;
    const isEasy = isLast || this.#options.transferLog.isFull();
    const isWorthwhile = part.followed > part.base && (isEasy || removesEnough(part));
    if (part.followed < part.end && !isWorthwhile) return true;
    const known = this.#consumer.known(jail);
    if (known !== undefined && !isWorthwhile) return true;
    part.isCompacting = true;
    part.keepsBase = known !== undefined;
    part.next = part.followed;
    part.ready.length = 0;
    this.#options.transferLog.compact(user, part.followed, known);
    return true;
  }

  #forget(part: Part): void {
    clearTimeout(part.timer);
    release(part, true);
    this.#parts.delete(part.user);
    this.#inTurn.delete(part);
  }

  async #pause(part: Part, ms: number): Promise<void> {
    part.isPaused = true;
    await setTimeout(ms, undefined, { ref: false });
    part.isPaused = false;
    this.#goOn(part);
  }
}

/**
 * Whether a compaction would remove about as much as it writes. Otherwise, a large state would be written again after
 * every line, and a long journal be copied many times.
 */
function removesEnough({ base, baseLength, followed, end }: Part): boolean {
  return followed - base + PIECE > Math.max(baseLength, end - followed);
}

function isRestoring({ restoresTo, isChecked }: Part): boolean {
  return restoresTo !== undefined || !isChecked;
}

/** Resolves the waiters whose records have been consumed. */
function release(part: Part, isOver = false): void {
  if (part.waiters.length === 0) return;
  const isServed = ({ position, count }: Part['waiters'][number]): boolean =>
    isOver || part.followed >= position || part.count >= count;
  for (const waiter of part.waiters) if (isServed(waiter)) waiter.resolve();
  part.waiters = part.waiters.filter((waiter) => !isServed(waiter));
}
