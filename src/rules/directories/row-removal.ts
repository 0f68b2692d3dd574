/**
 * Removes the rows of deleted directories: files, deliveries with their attempts, then the directory itself. It does so in
 * the background, one directory after the other and in small batches, so that a directory of a million files holds up
 * neither the response to the deletion nor other writers. The `unapplied` row is removed together with the directory's, so
 * the next start continues with what is left.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Transaction } from 'kysely';
import PQueue from 'p-queue';
import type { Database } from '../../foundation/db/open.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Removal } from '../accounts/actor.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { DirectoryHost } from './host.ts';

/** Rows of each table in one transaction. */
const BATCH = 1000;

export interface RowRemoval {
  /** Queues a directory that nothing writes to any more. `also` runs in the transaction that removes its row. */
  add(directoryId: string, also?: Removal): void;
  /** Whether some of that directory's rows are still to be removed. */
  has(directoryId: string): boolean;
  /** Resolves when nothing is left except directories that wait to be tried again. */
  idle(): Promise<void>;
  /** Stops after the current batch. */
  close(): Promise<void>;
}

export interface RowRemovalOptions {
  readonly database: Database;
  readonly log: Log;
  readonly host: Pick<DirectoryHost, 'makeDurable'>;
  readonly retryAfterMs?: number;
}

export function createRowRemoval({ database, log, host, retryAfterMs = 30_000 }: RowRemovalOptions): RowRemoval {
  const pending = new Map<string, Removal | undefined>();
  const queue = new PQueue({ concurrency: 1 });
  const stop = new AbortController();
  const { signal } = stop;

  async function remove(id: string): Promise<void> {
    try {
      await host.makeDurable([]); // the mark is removed with the rows
      while (!signal.aborted && !(await removeBatch(database, id, pending.get(id)))) await setImmediate();
      pending.delete(id);
      if (pending.size === 0) await database.emptyLog();
    } catch (error) {
      log.warn({ err: error, directory_id: id }, "could not remove a deleted directory's rows, will try again");
      setTimeout(retryAfterMs, id, { signal, ref: false }).then(enqueue, () => undefined);
    }
  }

  const enqueue = (id: string): void => void queue.add(() => remove(id));
  return {
    add(id, also) {
      if (signal.aborted || pending.has(id)) return;
      pending.set(id, also);
      enqueue(id);
    },
    has: (id) => pending.has(id),
    idle: () => queue.onIdle(),
    close() {
      stop.abort();
      return queue.onIdle();
    },
  };
}

/** Removes a batch. Returns true when it was the last. */
async function removeBatch({ db }: Database, id: string, also?: Removal): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const files = await removeSome(tx, 'files', id);
    const deliveries = await removeSome(tx, 'deliveries', id);
    if (files === BATCH || deliveries === BATCH) return false;
    await tx.deleteFrom('unapplied').where('directory_id', '=', id).execute();
    await tx.deleteFrom('directories').where('id', '=', id).execute();
    await also?.(tx);
    return true;
  });
}

/** Attempts go with their delivery (on delete cascade). */
async function removeSome(tx: Transaction<Tables>, table: 'files' | 'deliveries', id: string): Promise<number> {
  const removed = await tx
    .deleteFrom(table)
    .where('id', 'in', (from) => from.selectFrom(table).select('id').where('directory_id', '=', id).limit(BATCH))
    .executeTakeFirst();
  return Number(removed.numDeletedRows);
}
