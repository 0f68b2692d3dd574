/**
 * Writers that come at the same time share one transaction, and so one wait for the disk. Each is in a savepoint of its
 * own: one that fails takes nothing of the others with it. None is answered before the commit is on the disk.
 */
import { setImmediate } from 'node:timers';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Tables } from './schema.ts';

/**
 * Runs `work` in a transaction, which must await nothing but queries, and returns what it returned once that is
 * committed. Throws what `work` threw, or why the commit failed.
 */
export type Write = <T>(work: (tx: Transaction<Tables>) => Promise<T>) => Promise<T>;

/** In one transaction at most, so that nobody waits for long. */
const TOGETHER = 50;

/** Takes part in a transaction; returns what to do when that is committed. */
interface Writer {
  run(tx: Transaction<Tables>): Promise<() => void>;
  fail(error: unknown): void;
}

export function sharedCommits(db: Kysely<Tables>): Write {
  const waiting: Writer[] = [];
  let scheduled = false;

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
    try {
      const done = await db.transaction().execute(async (tx) => {
        const settled: (() => void)[] = [];
        for (const writer of writers) settled.push(await inSavepoint(tx, writer));
        return settled;
      });
      left.clear();
      for (const settle of done) settle();
    } catch (error) {
      for (const writer of left) writer.fail(error);
    }
  }

  return <T>(work: (tx: Transaction<Tables>) => Promise<T>) =>
    new Promise<T>((resolve, reject) => {
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

async function inSavepoint(tx: Transaction<Tables>, writer: Writer): Promise<() => void> {
  await sql`savepoint writer`.execute(tx);
  try {
    const settle = await writer.run(tx);
    await sql`release savepoint writer`.execute(tx);
    return settle;
  } catch (error) {
    try {
      await sql`rollback to savepoint writer`.execute(tx);
      await sql`release savepoint writer`.execute(tx);
    } catch {
      throw error; // A full disk ends the whole transaction: nobody's part is written, and this is why.
    }
    return () => writer.fail(error);
  }
}
