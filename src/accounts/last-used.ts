/**
 * When each key was last used, kept without a write per request: remembered in memory and written in one transaction
 * every half minute and at close. A crash forgets at most that half minute.
 */
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';

const FLUSH_EVERY_MS = 30_000;

export interface LastUsed {
  /** Remembers that the key was used now. */
  note(keyId: string): void;
  /** Writes what is remembered. */
  flush(): Promise<void>;
  /** Stops the timer and writes the rest. */
  close(): Promise<void>;
}

export function createLastUsed({ database, clock, log }: { database: Database; clock: Clock; log: Log }): LastUsed {
  let used = new Map<string, Micros>();

  async function flush(): Promise<void> {
    if (used.size === 0) return;
    const writing = used;
    used = new Map();
    try {
      await database.db.transaction().execute(async (tx) => {
        for (const [id, last_used_at] of writing) {
          await tx.updateTable('api_keys').set({ last_used_at }).where('id', '=', id).execute();
        }
      });
    } catch (error) {
      // The disk may be full: keep them for the next turn, unless they have been used again since.
      for (const [id, at] of writing) if (!used.has(id)) used.set(id, at);
      throw error;
    }
  }
  const flushOrLog = (): Promise<void> =>
    flush().catch((error: unknown) => log.warn({ err: error }, 'could not write when keys were last used'));

  const timer = setInterval(() => void flushOrLog(), FLUSH_EVERY_MS);
  timer.unref();
  return {
    note: (keyId) => void used.set(keyId, clock.now()),
    flush,
    async close() {
      clearInterval(timer);
      await flushOrLog();
    },
  };
}
