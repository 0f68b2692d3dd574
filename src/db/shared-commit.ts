/**
 * Writers that come at the same time share one transaction, and so one wait for the disk. Each is in a savepoint of its
 * own: one that fails takes nothing of the others with it. None is answered before the commit is on the disk.
 */
import { setImmediate } from 'node:timers';
import { CompiledQuery, type Kysely, type Transaction } from 'kysely';
import type { Tables } from './schema.ts';

export interface Write {
  /**
   * Runs `work` in a transaction, which must await nothing but queries, and returns what it returned once that is
   * committed. Throws what `work` threw, or why the commit failed.
   */
  <T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T>;
  /**
   * For what nobody waits for and somebody repeats: runs `work` a moment from now, in one transaction with all else
   * that was put off. A crash, a close or a failure of any of it drops all of it.
   */
  later(work: (tx: Transaction<Tables>) => Promise<unknown>): void;
}

/** In one transaction at most, so that nobody waits for long. */
const TOGETHER = 50;

/** How long `later` gathers, in ms. */
const GATHER = 50;

const SAVEPOINT = CompiledQuery.raw('savepoint writer');
const RELEASE = CompiledQuery.raw('release savepoint writer');
const ROLLBACK = CompiledQuery.raw('rollback to savepoint writer');

/** Takes part in a transaction; returns what to do when that is committed. */
interface Writer {
  run(tx: Transaction<Tables>): Promise<() => void>;
  fail(error: unknown): void;
}

export function sharedCommits(db: Kysely<Tables>): Write {
  const waiting: Writer[] = [];
  let scheduled = false;
  let putOff: ((tx: Transaction<Tables>) => Promise<unknown>)[] = [];

  /** After the requests that this turn of the event loop brings. */
  function schedule(): void {
    if (scheduled || waiting.length === 0) return;
    scheduled = true;
    setImmediate(() => {
      void commit(waiting.splice(0, TOGETHER)).finally(() => {
        scheduled = false;
        schedule();
      });
    });
  }

  async function commit(writers: readonly Writer[]): Promise<void> {
    const left = new Set(writers);
    // The transaction of one alone is all the savepoint that it needs.
    const take = writers.length === 1 ? alone : inSavepoint;
    try {
      const done = await db.transaction().execute(async (tx) => {
        const settled: (() => void)[] = [];
        for (const writer of writers) settled.push(await take(tx, writer));
        return settled;
      });
      left.clear();
      for (const settle of done) settle();
    } catch (error) {
      for (const writer of left) writer.fail(error);
    }
  }

  function write<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      waiting.push({
        async run(tx) {
          const value = await work(tx);
          return () => resolve(value);
        },
        fail: reject,
      });
      schedule();
    });
  }

  function later(work: (tx: Transaction<Tables>) => Promise<unknown>): void {
    putOff.push(work);
    if (putOff.length > 1) return;
    const writeAll = (): void => {
      const works = putOff;
      putOff = [];
      write(async (tx) => {
        for (const each of works) await each(tx);
      }).catch(() => undefined);
    };
    setTimeout(writeAll, GATHER).unref();
  }

  return Object.assign(write, { later });
}

function alone(tx: Transaction<Tables>, writer: Writer): Promise<() => void> {
  return writer.run(tx);
}

async function inSavepoint(tx: Transaction<Tables>, writer: Writer): Promise<() => void> {
  await tx.executeQuery(SAVEPOINT);
  try {
    const settle = await writer.run(tx);
    await tx.executeQuery(RELEASE);
    return settle;
  } catch (error) {
    try {
      await tx.executeQuery(ROLLBACK);
      await tx.executeQuery(RELEASE);
    } catch {
      throw error; // A full disk ends the whole transaction: nobody's part is written, and this is why.
    }
    return () => writer.fail(error);
  }
}
