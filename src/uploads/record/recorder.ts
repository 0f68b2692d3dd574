/**
 * The recorder: takes from the ledger what is due, looks, decides, and writes file rows, totals, webhooks and history
 * in one transaction for several looks.
 *
 * Promise: evidence that was handed over is acted upon or, when that is not possible, its directory is scanned. A full or
 * busy database is waited for. An upload is on the disk before its row is. After a crash the scan at the start finds
 * what was not recorded.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import type { Clock } from '../../clock.ts';
import type { Tables } from '../../db/schema.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Transact } from '../../webhooks/dispatcher.ts';
import { type Durable } from '../disk/durable.ts';
import type { SessionNote } from './evidence.ts';
import { type HistoryRow, logHistory, noteRows, writeHistory } from './history.ts';
import type { Ledger } from './ledger.ts';
import { liveDirectory, lookAndWrite, type Written } from './write.ts';
import type { Entry } from './namespace.ts';
import { type LookOptions, REST } from './look.ts';
import type { Wait } from './decision.ts';

/** Looks in one transaction: enough to share its fsync, few enough not to hold up the requests behind it. */
const BATCH = 64;

/** Between two transactions that write, in ms, unless a whole batch waits: a commit costs more than what it holds. */
const GATHER = 2;

/** Session notes in one transaction; how long they wait for something to be written with, in ms; how many wait at most. */
const NOTES = 64;
const NOTE_PATIENCE = 250;
const NOTE_LIMIT = 10_000;

/** How long to wait before trying again when the database is full or busy, or a disk fails, in ms. */
const RETRY = 1000;

/** The first wait for what a line of the log announces, four times as long each time, in ms. */
const SOON = 20;

/** Looks at one path without a decision. */
const MOST_LOOKS = 100;

export interface RecorderOptions extends LookOptions {
  readonly transact: Transact;
  readonly clock: Clock;
  readonly log: Log;
  readonly ledger: Ledger;
  readonly durable: Durable;
  /** Called after each commit with what it has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** Resolves when everything has been followed that sshd had logged of the directory before the call. */
  caughtUp(directoryId: string): Promise<void>;
  /** Whether a session of the directory holds that inode open for writing, by the kernel's word. */
  isHeld(directoryId: string, inode: number): Promise<boolean>;
  /** The directory has to be scanned. */
  rescan(directoryId: string): void;
}

export interface Recorder {
  /** Something is due. */
  wake(): void;
  /** For the history alone: written with the next looks, or a moment later by itself. A crash may lose it. */
  note(note: SessionNote): void;
  /** Resolves when at most `left` looks are under way. */
  drained(left?: number): Promise<void>;
  /** Records what is due and stops; gives up on a database that does not answer. */
  close(): Promise<void>;
}

export function createRecorder(options: RecorderOptions): Recorder {
  const { transact, log, ledger, durable } = options;
  /** Prepared for a look. */
  let ready: Entry[] = [];
  let notes: SessionNote[] = [];
  let noting: NodeJS.Timeout | undefined;
  /** How many of the next looks to take one by one, to find the one at fault. */
  let alone = 0;
  let running: Promise<void> | undefined;
  let began = Number.NEGATIVE_INFINITY;
  let waiters: { left: number; resolve: () => void }[] = [];
  const stop = new AbortController();

  function wake(): void {
    running ??= run();
  }

  async function run(): Promise<void> {
    await Promise.resolve(); // what is due comes in groups
    for (;;) {
      for (const entry of ledger.take(BATCH)) begin(entry);
      if (ready.length === 0 && (notes.length === 0 || noting)) break;
      if (stop.signal.aborted) break;
      await gather();
      await step(ready.splice(0, alone > 0 ? 1 : BATCH));
      settleWaiters();
      await setImmediate();
    }
    settleWaiters();
    running = undefined;
  }

  /** An upload is synced before it is looked at: to look first would only show that it has to be. */
  function begin(entry: Entry): void {
    const isUpload = entry.closes.some(({ isComplete }) => isComplete) && entry.writers.size === 0;
    if (isUpload && entry.isAttached && !entry.synced) prepare(entry, 'sync');
    else ready.push(entry);
  }

  /** Lets looks come together, but for the first after a pause, which waits for nobody. */
  async function gather(): Promise<void> {
    const wait = began + GATHER - performance.now();
    if (wait > 0 && ready.length < BATCH && !stop.signal.aborted) await setTimeout(Math.ceil(wait));
  }

  /** Looks at these, and writes what follows. One that cannot be written does not stop the others. */
  async function step(entries: Entry[]): Promise<void> {
    try {
      const written = await write(entries);
      for (const each of written) conclude(each);
      if (alone > 0) alone -= 1;
    } catch (error) {
      if (isPassing(error)) {
        log.error({ err: errorMessage(error) }, 'cannot record uploads, trying again');
        await setTimeout(RETRY, undefined, { signal: stop.signal }).catch(() => undefined);
      } else if (notes.length > 0) {
        // The history is not worth holding up uploads for, should it be at fault.
        log.error({ err: error, notes: Math.min(notes.length, NOTES) }, 'cannot write history');
        notes = notes.slice(NOTES);
      } else if (entries.length > 1) {
        alone = entries.length;
      } else {
        alone = Math.max(alone - 1, 0);
        for (const entry of entries) giveUp(entry, error);
        return;
      }
      ready = [...entries, ...ready];
    }
  }

  async function write(entries: readonly Entry[]): Promise<Written[]> {
    const noted = notes.slice(0, NOTES);
    const now = options.clock.now();
    const started = performance.now();
    const { written, rows } = await transact(async (tx) => {
      const found: Written[] = [];
      for (const [id, own] of Map.groupBy(entries, ({ directory }) => directory.id)) {
        found.push(...(await writeDirectory(tx, id, own, now)));
      }
      const history = [...found.flatMap((each) => each.history), ...(await noteRows(tx, noted))];
      await writeHistory(tx, history);
      return { value: { written: found, rows: history }, destinations: found.flatMap((each) => each.webhooks) };
    });
    notes = notes.slice(noted.length);
    if (rows.length > 0) {
      began = started;
      logHistory(log, rows);
      options.recorded(rows);
    }
    return written;
  }

  async function writeDirectory(tx: Transaction<Tables>, id: string, entries: readonly Entry[], now: number) {
    const directory = await liveDirectory(tx, id);
    return lookAndWrite(tx, directory, entries, now, options);
  }

  /** The transaction is committed: what it has acted upon is no longer evidence. */
  function conclude({ entry, outcome }: Written): void {
    if (outcome.kind === 'wait') {
      entry.looks += 1;
      // What was renamed is not where it should be: perhaps nobody will say where it is.
      const isLost =
        outcome.isLost === true || (outcome.wait === 'rest' && entry.renames.length > 0 && entry.looks === 3);
      if (isLost) options.rescan(entry.directory.id);
      if (entry.looks > MOST_LOOKS) return giveUp(entry, new Error(`no decision after ${MOST_LOOKS} looks`));
      return prepare(entry, outcome.wait, outcome.stat);
    }
    if (outcome.kind === 'go on') entry.move = outcome.move;
    else forget(entry, outcome);
    if (outcome.kind === 'done' && outcome.rescan) options.rescan(entry.directory.id);
    if (outcome.kind === 'done' && outcome.isUnsettled) entry.rest ??= { stat: undefined, since: performance.now() };
    const isUnsettled = outcome.kind === 'done' && outcome.isUnsettled;
    ledger.done(entry);
    if (outcome.kind === 'go on' || entry.isPending) ledger.lookNow(entry);
    else if (isUnsettled) ledger.lookLater(entry, REST);
  }

  function forget(entry: Entry, { closes, renames }: { readonly closes: number; readonly renames: number }): void {
    entry.closes = entry.closes.slice(closes);
    entry.renames = entry.renames.slice(renames);
    if (entry.renames.length === 0) entry.formerly = [];
    entry.removal = undefined;
    entry.over = undefined;
    entry.move = undefined;
    entry.seen = undefined;
    entry.isUnexplained = false;
    entry.looks = 0;
  }

  function giveUp(entry: Entry, error: unknown): void {
    const { id } = entry.directory;
    log.error({ err: error, directory: id }, 'cannot record a change, looking at the disk instead');
    forget(entry, { closes: entry.closes.length, renames: entry.renames.length });
    ledger.done(entry);
    options.rescan(id);
  }

  /** Does what a look has to wait for, and has it looked at again. */
  function prepare(entry: Entry, wait: Wait, stat?: Entry['seen']): void {
    if (wait === 'rest') {
      const isAnnounced = entry.renames.length > 0 || entry.removal !== undefined;
      ledger.done(entry);
      ledger.lookLater(entry, isAnnounced ? Math.min(SOON * 4 ** entry.looks, REST) : REST);
      return;
    }
    void lookAgainAfter(entry, wait, stat);
  }

  async function lookAgainAfter(entry: Entry, wait: Wait, stat: Entry['seen']): Promise<void> {
    try {
      await prepared(entry, wait, stat);
    } catch (error) {
      log.error({ err: error, directory: entry.directory.id }, 'cannot look at a file, trying again');
      await setTimeout(RETRY, undefined, { signal: stop.signal }).catch(() => undefined);
    }
    ready.push(entry);
    wake();
  }

  async function prepared(entry: Entry, wait: Wait, stat: Entry['seen']): Promise<void> {
    const { id, username } = entry.directory;
    if (wait === 'sync') {
      const path = entry.isAttached ? entry.path : (entry.closes.at(-1)?.path ?? '');
      entry.synced = await durable.sync(options.filesRoot(username), path);
    } else if (wait === 'barrier') {
      entry.seen = stat ?? null;
      await options.caughtUp(id);
    } else {
      await options.caughtUp(id);
      entry.isUnexplained = !stat || !(await options.isHeld(id, stat.inode));
      // Its close will be logged.
      if (!entry.isUnexplained) await setTimeout(REST, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  }

  function settleWaiters(): void {
    if (waiters.length === 0) return;
    const pending = ledger.pending();
    const satisfied = waiters.filter(({ left }) => pending <= left || stop.signal.aborted);
    waiters = waiters.filter((waiter) => !satisfied.includes(waiter));
    for (const { resolve } of satisfied) resolve();
  }

  return {
    wake,
    note(note) {
      if (notes.length >= NOTE_LIMIT) return;
      notes.push(note);
      noting ??= globalThis
        .setTimeout(() => {
          noting = undefined;
          wake();
        }, NOTE_PATIENCE)
        .unref();
    },
    drained: (left = 0) =>
      ledger.pending() <= left ? Promise.resolve() : new Promise((resolve) => waiters.push({ left, resolve })),
    async close() {
      clearTimeout(noting);
      noting = undefined;
      wake();
      const finished = running ?? Promise.resolve();
      await Promise.race([finished, setTimeout(5000, undefined, { ref: false })]);
      stop.abort();
      await finished;
      settleWaiters();
    },
  };
}

/** Trouble that goes away without us: no space, or another process that holds the database. */
function isPassing(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  return /^SQLITE_(FULL|BUSY|IOERR|CANTOPEN)/.test(code) || code === 'EMFILE' || code === 'ENFILE' || code === 'EIO';
}
