/**
 * Records changes: file rows, storage totals and webhooks in one transaction per batch, in the order in which the
 * changes came.
 *
 * Promise: a change that was handed over is applied or, when that is not possible, its directory is scanned. A full or
 * busy database is waited for. After a crash the scan at the start finds what was not applied.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Database } from '../db/open.ts';
import { errorCode, errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { enqueue } from '../webhooks/outbox.ts';
import { insertTransfers } from '../history/transfers.ts';
import { Batch, type FilesRoot, type Recorded } from './batch.ts';
import type { Change, SessionNote } from './change.ts';
import { applyChange, type RuleOptions } from './rules.ts';

/** Changes in one transaction: enough to share its fsync, few enough not to hold up the requests behind it. */
const BATCH = 64;

/** Between two transactions, in ms, unless a whole batch waits: a commit costs more than what it holds. */
const GATHER = 5;

/** Changes that wait in memory at most. Beyond it they are dropped and their directories scanned instead. */
const QUEUE_LIMIT = 100_000;

/** How long a transaction may go on applying changes, in ms: nothing else runs meanwhile. */
const TURN = 10;

/** Notes written in one transaction. */
const NOTES = 64;

/** How long notes wait for changes to be written with, in ms. */
const NOTE_PATIENCE = 250;

/** How long to wait before trying again when the database is full or busy, in ms. */
const RETRY = 1000;

export interface RecorderOptions extends RuleOptions {
  readonly database: Database;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  /** Called after a commit that enqueued webhooks. */
  wake(): void;
  /** Called after each commit with what it has put into the history. */
  recorded?(recorded: readonly Recorded[]): void;
  /** Resolves when everything has been handed over that sshd had logged before the call. */
  caughtUp(): Promise<void>;
  /** Called when changes of that directory could not be applied. */
  rescan(directoryId: string): void;
}

export interface Recorder {
  push(changes: readonly Change[]): void;
  /** For the history alone: written with the next changes, or a moment later by itself. A crash may lose it. */
  note(note: SessionNote): void;
  /** Resolves when at most `left` changes wait. */
  drained(left?: number): Promise<void>;
  /** Applies what waits and stops; gives up on a database that does not answer. */
  close(): Promise<void>;
}

export function createRecorder(options: RecorderOptions): Recorder {
  const { database, log } = options;
  let queue: Change[] = [];
  let notes: SessionNote[] = [];
  let noting: NodeJS.Timeout | undefined;
  /** How many of the next changes to apply one by one, to find the one at fault. */
  let alone = 0;
  let running: Promise<void> | undefined;
  let waiters: { left: number; resolve: () => void }[] = [];
  const stop = new AbortController();

  let began = Number.NEGATIVE_INFINITY;
  let closing = false;

  /** Lets changes come together, but for the first after a pause, which waits for nobody. */
  async function gather(): Promise<void> {
    const wait = began + GATHER - performance.now();
    if (wait > 0 && queue.length < BATCH && !closing) await setTimeout(Math.ceil(wait));
    began = performance.now();
  }

  async function run(): Promise<void> {
    while (queue.length + notes.length > 0 && !stop.signal.aborted) {
      await gather();
      await step(queue.slice(0, alone > 0 ? 1 : BATCH));
      const satisfied = waiters.filter(({ left }) => queue.length <= left);
      waiters = waiters.filter(({ left }) => queue.length > left);
      for (const { resolve } of satisfied) resolve();
      await setImmediate();
    }
    running = undefined;
  }

  /** Applies the first changes of the queue and takes them away. One that cannot be applied does not stop the others. */
  async function step(changes: Change[]): Promise<void> {
    const restoreVanished = options.vanished.save();
    try {
      const { done, rest, uncertain } = await apply(changes);
      queue = queue.slice(done);
      if (rest) queue = afterOthers(rest, queue);
      if (alone > 0) alone -= 1;
      if (uncertain) await options.caughtUp().then(uncertain);
    } catch (error) {
      restoreVanished();
      if (isPassing(error)) {
        log.error({ err: errorMessage(error) }, 'cannot record uploads, trying again');
        await setTimeout(RETRY, undefined, { signal: stop.signal }).catch(() => undefined);
      } else if (notes.length > 0) {
        // The history is not worth holding up uploads for, should it be at fault.
        log.error({ err: error, notes: Math.min(notes.length, NOTES) }, 'cannot write history');
        notes = notes.slice(NOTES);
      } else if (changes.length > 1) {
        alone = changes.length;
      } else {
        alone = Math.max(alone - 1, 0);
        queue = queue.slice(1);
        for (const { directoryId } of changes) {
          log.error({ err: error, directory: directoryId }, 'cannot record a change, looking at the disk instead');
          options.rescan(directoryId);
        }
      }
    }
  }

  /** Returns how many changes were applied, and what is left to do of the last of them. */
  async function apply(
    changes: Change[],
  ): Promise<{ done: number; rest: Change | undefined; uncertain: Batch['uncertain'] }> {
    let enqueued = 0;
    let recorded: readonly Recorded[] = [];
    const noted = notes.slice(0, NOTES);
    const applying = performance.now();
    const result = await database.db.transaction().execute(async (tx) => {
      const batch = new Batch(tx, options.filesRoot);
      let done = 0;
      let rest: Change | undefined;
      for (const change of changes) {
        rest = await applyChange(batch, change, options);
        done += 1;
        if (rest || performance.now() - applying > TURN) break;
      }
      await batch.files.flush();
      enqueued = await enqueue(tx, ...batch.uploads);
      for (const note of noted) await batch.noteSession(note);
      recorded = batch.recorded;
      await insertTransfers(
        tx,
        recorded.map(({ row }) => row),
      );
      return { done, rest, uncertain: batch.uncertain };
    });
    if (enqueued > 0) options.wake();
    notes = notes.slice(noted.length);
    if (recorded.length > 0) options.recorded?.(recorded);
    return result;
  }

  function setNoteTimer(): NodeJS.Timeout {
    const write = (): void => {
      noting = undefined;
      if (notes.length > 0) running ??= run();
    };
    return globalThis.setTimeout(write, NOTE_PATIENCE).unref();
  }

  return {
    push(changes) {
      if (queue.length + changes.length > QUEUE_LIMIT) {
        for (const id of new Set(changes.map((change) => change.directoryId))) options.rescan(id);
        return;
      }
      queue = queue.concat(changes);
      running ??= run();
    },
    note(note) {
      if (notes.length >= QUEUE_LIMIT) return;
      notes.push(note);
      noting ??= setNoteTimer();
    },
    drained: (left = 0) =>
      queue.length <= left ? Promise.resolve() : new Promise((resolve) => waiters.push({ left, resolve })),
    async close() {
      closing = true;
      clearTimeout(noting);
      if (notes.length > 0) running ??= run();
      const finished = running ?? Promise.resolve();
      await Promise.race([finished, setTimeout(5000, undefined, { ref: false })]);
      stop.abort();
      for (const { resolve } of waiters) resolve();
      await finished;
    },
  };
}

/** A long change lets other directories' go first; those of its own wait for it. */
function afterOthers(rest: Change, queue: readonly Change[]): Change[] {
  const isOwn = ({ directoryId }: Change): boolean => directoryId === rest.directoryId;
  return [...queue.filter((change) => !isOwn(change)), rest, ...queue.filter(isOwn)];
}

/** Trouble that goes away without us: no space, or another process that holds the database. */
function isPassing(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  return /^SQLITE_(FULL|BUSY|IOERR|CANTOPEN)/.test(code) || code === 'EMFILE' || code === 'ENFILE' || code === 'EIO';
}
