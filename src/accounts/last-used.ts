/**
 * When each key was last used, kept without a write per request: remembered in memory and written in one transaction
 * every half minute and at close. A crash forgets at most that half minute.
 */
import type { Background } from '../background.ts';
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';

/** In ms. */
const FLUSH_EVERY = 30_000;

export interface LastUsed {
  /** Remembers that the key was used now. */
  note(keyId: string): void;
  /** Writes what is remembered. */
  flush(): Promise<void>;
  /** Writes the rest and ends. */
  close(): Promise<void>;
}

export interface LastUsedOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly background: Background;
}

export function createLastUsed({ database, clock, background }: LastUsedOptions): LastUsed {
  let used = new Map<string, Micros>();
  const loop = background.start('last-used', { every: FLUSH_EVERY }, async () => {
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
      // The disk may be full: the next run writes them, or when they have been used since.
      used = new Map([...writing, ...used]);
      throw error;
    }
  });
  return {
    note: (keyId) => void used.set(keyId, clock.now()),
    flush: loop.run,
    async close() {
      await loop.run();
      await loop.close();
    },
  };
}
