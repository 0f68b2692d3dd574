/**
 * The recorder: takes what is due, looks, decides, and writes file rows, totals, webhooks and history in one transaction
 * for several looks.
 *
 * Promise: evidence is acted upon or, when that is not possible, its directory is scanned. A full or busy database is
 * waited for. An upload is on the disk before its row is. After a crash the scan at the start finds what was missed.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Clock, Micros } from '../../clock.ts';
import { isUnavailable } from '../../db/away.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import { insertTransfers } from '../../history/transfers.ts';
import type { Transact } from '../../webhooks/dispatcher.ts';
import type { Wait } from './decision.ts';
import type { FileStat } from './file-stat.ts';
import { type HistoryRow, logHistory, noteRows, type SessionNote, type SessionNotes } from './history.ts';
import { type LookOptions, REST } from './look.ts';
import type { Entry } from './namespace.ts';
import { prepare, type PrepareOptions, sleep } from './prepare.ts';
import type { Schedule } from './schedule.ts';
import { allDone, lookAndWrite, type Written } from './write.ts';

/** Looks in one transaction: enough to share its fsync, few enough not to hold up the requests behind it. */
const BATCH = 64;

/** Between two transactions that write, in ms, unless a whole batch waits: a commit costs more than what it holds. */
const GATHER = 2;

/** How long to wait before trying again when the database is full or busy, in ms. */
const RETRY = 1000;

/** A quarter of the first wait for what the log announces, in ms; each is four times as long as the one before. */
const SOON = 20;

/** Looks after which a renamed file is searched for. */
const LOST_LOOKS = 3;

/** Looks at one path without a decision. */
const MOST_LOOKS = 100;

/** Between checks whether few enough looks are left, in ms. */
const DRAIN_CHECK = 10;

/** How long a database that does not answer may hold up the end, in ms. */
const CLOSE_PATIENCE = 5000;

export interface RecorderOptions extends LookOptions, PrepareOptions {
  readonly transact: Transact;
  readonly clock: Clock;
  readonly schedule: Schedule;
  readonly notes: SessionNotes;
  /** Called after each commit with what it has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** The directory has to be scanned. */
  rescan(directoryId: string): void;
}

export class Recorder {
  readonly #options: RecorderOptions;
  /** Prepared for a look. */
  #ready: Entry[] = [];
  #running: Promise<void> | undefined;
  /** Uploads on their way to the disk. */
  #syncing = 0;
  /** When the last transaction began that wrote something. */
  #lastBegan = Number.NEGATIVE_INFINITY;
  /** What happened until then may be recorded: the database went away before it answered a commit. */
  #inDoubtUntil: Micros = -Infinity;
  readonly #stop = new AbortController();

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** What happened until then may be recorded already. */
  repeated(at: Micros): void {
    this.#inDoubtUntil = Math.max(this.#inDoubtUntil, at);
  }

  /** Something is due. */
  wake(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when at most `left` looks are due or under way. */
  async drained(left = 0): Promise<void> {
    while (this.#options.schedule.pending() > left && !this.#stop.signal.aborted) await setTimeout(DRAIN_CHECK);
  }

  /** Records what is due and stops; gives up on a disk or a database that does not answer. */
  async close(): Promise<void> {
    this.#options.notes.makeDue();
    const over = performance.now() + CLOSE_PATIENCE;
    while ((this.#running ?? this.#syncing > 0) && performance.now() < over) await setTimeout(DRAIN_CHECK);
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { schedule, notes } = this.#options;
    await Promise.resolve(); // what is due comes in groups
    while (!this.#stop.signal.aborted) {
      for (const entry of schedule.take(BATCH)) this.#begin(entry);
      if (this.#ready.length === 0 && !notes.isDue) break;
      await this.#gather();
      await this.#record(this.#ready.splice(0, BATCH), notes.take());
      await setImmediate();
    }
    this.#running = undefined;
  }

  /** An upload is synced before it is looked at: a look would only show that it has to be. */
  #begin(entry: Entry): void {
    const isUpload = entry.closes.some(({ isComplete }) => isComplete) && entry.writers.size === 0;
    if (isUpload && entry.isAttached && !entry.progress.synced) void this.#sync(entry);
    else this.#ready.push(entry);
  }

  /** Lets looks come together, except for the first after a pause. */
  async #gather(): Promise<void> {
    const wait = this.#lastBegan + GATHER - performance.now();
    if (wait > 0 && this.#ready.length < BATCH) await setTimeout(Math.ceil(wait));
  }

  /** Looks at these, and writes what follows. What cannot be written does not stop the rest. */
  async #record(entries: readonly Entry[], notes: readonly SessionNote[]): Promise<void> {
    const { log } = this.#options;
    try {
      for (const each of await this.#write(entries, notes)) this.#conclude(each);
    } catch (error) {
      if (isPassing(error)) {
        log.error({ err: errorMessage(error) }, 'cannot record uploads, trying again');
        this.repeated(this.#options.clock.now());
        await sleep(RETRY, this.#stop.signal);
        this.#ready.unshift(...entries);
        this.#options.notes.putBack(notes);
      } else if (notes.length > 0) {
        // The history is not worth holding up uploads for, should it be at fault.
        log.error({ err: error, notes: notes.length }, 'cannot write history');
        await this.#record(entries, []);
      } else if (entries.length > 1) {
        for (const entry of entries) await this.#record([entry], []);
      } else {
        for (const entry of entries) this.#giveUp(entry, error);
      }
    }
  }

  async #write(entries: readonly Entry[], notes: readonly SessionNote[]): Promise<Written[]> {
    const { transact, clock, log } = this.#options;
    const now = clock.now();
    const options = { ...this.#options, inDoubtUntil: this.#inDoubtUntil };
    const began = performance.now();
    const { written, history } = await transact(async (tx) => {
      const found: Written[] = [];
      for (const [id, own] of Map.groupBy(entries, ({ directory }) => directory.jail.id)) {
        found.push(...(await lookAndWrite(tx, id, own, now, options)));
      }
      const rows = [...found.flatMap((each) => each.history), ...(await noteRows(tx, notes, options))];
      const transfers = rows.map(({ row }) => row);
      await insertTransfers(tx, transfers);
      return { value: { written: found, history: rows }, destinations: found.flatMap(({ webhooks }) => webhooks) };
    });
    if (history.length > 0) this.#lastBegan = began;
    logHistory(log, history);
    this.#options.recorded(history);
    return written;
  }

  /** The transaction is committed: what it has acted upon is no longer evidence. */
  #conclude({ entry, outcome }: Written): void {
    const { schedule, rescan } = this.#options;
    if (outcome.kind === 'wait') {
      entry.looks += 1;
      if (entry.looks > MOST_LOOKS) this.#giveUp(entry, new Error(`no decision after ${MOST_LOOKS} looks`));
      else if (outcome.wait !== 'rest') void this.#lookAfter(entry, outcome.wait, outcome.stat);
      else {
        // A file that was renamed and is nowhere to be seen may be where the log does not tell.
        if (outcome.isLost || (entry.renames.length > 0 && entry.looks === LOST_LOOKS)) rescan(entry.directory.jail.id);
        const isAnnounced = entry.renames.length > 0 || entry.removal !== undefined;
        schedule.lookLater(entry, isAnnounced ? Math.min(SOON * 4 ** entry.looks, REST) : REST);
        schedule.done(entry);
      }
      return;
    }
    if (outcome.kind === 'go on') entry.progress.move = outcome.move;
    else forget(entry, outcome);
    const isLost = outcome.kind === 'done' && outcome.isLost;
    if (isLost) {
      rescan(entry.directory.jail.id);
      schedule.lookLater(entry, REST);
    }
    schedule.done(entry);
    if (outcome.kind === 'go on' || entry.isPending) schedule.lookNow(entry);
  }

  #giveUp(entry: Entry, error: unknown): void {
    const { log, schedule, rescan } = this.#options;
    const { id } = entry.directory.jail;
    log.error({ err: error, directory: id }, 'cannot record a change, looking at the disk instead');
    forget(entry, allDone(entry));
    schedule.done(entry);
    rescan(id);
  }

  async #sync(entry: Entry): Promise<void> {
    this.#syncing += 1;
    await this.#lookAfter(entry, 'sync', undefined);
    this.#syncing -= 1;
  }

  async #lookAfter(entry: Entry, wait: Exclude<Wait, 'rest'>, stat: FileStat | undefined): Promise<void> {
    await prepare(entry, wait, stat, { ...this.#options, signal: this.#stop.signal });
    this.#ready.push(entry);
    this.wake();
  }
}

function forget(entry: Entry, { closes, renames }: { readonly closes: number; readonly renames: number }): void {
  entry.closes = entry.closes.slice(closes);
  entry.renames = entry.renames.slice(renames);
  if (entry.renames.length === 0) entry.formerly = [];
  entry.removal = undefined;
  entry.sessionEnd = undefined;
  entry.progress = {};
  entry.looks = 0;
}

/** Trouble that goes away by itself: no space, or a database that cannot be asked. */
function isPassing(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  if (isUnavailable(error)) return true;
  return /^SQLITE_(FULL|BUSY|IOERR|CANTOPEN)/.test(code) || code === 'EMFILE' || code === 'ENFILE' || code === 'EIO';
}
