/**
 * When keys were last used, kept without a write per use: remembered in memory and written in one transaction every half
 * minute and at close. A crash forgets at most that half minute.
 */
import type { Transaction } from 'kysely';
import type { Background } from '../base/background.ts';
import type { Clock, Micros } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';

const FLUSH_EVERY_MS = 30_000;

export interface LastUsed {
  /** Remembers that the key was used then, or now. */
  note(key: string, at?: Micros): void;
  /** Writes what is remembered. */
  flush(): Promise<void>;
  /** Writes what is left and ends. */
  close(): Promise<void>;
}

export interface LastUsedOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly background: Background;
  readonly of: UsedKeys;
}

/** The keys of one kind. */
export interface UsedKeys {
  /** The name of the loop that writes their uses. */
  readonly name: string;
  write(tx: Transaction<Tables>, key: string, at: Micros): Promise<void>;
}

export function createLastUsed({ database, clock, background, of: { name, write } }: LastUsedOptions): LastUsed {
  let used = new Map<string, Micros>();
  const loop = background.start(name, { every: FLUSH_EVERY_MS }, async () => {
    if (used.size === 0) return;
    const writing = used;
    used = new Map();
    try {
      await database.db.transaction().execute(async (tx) => {
        // Sorted: nodes that write the same keys at once then wait for each other instead of deadlocking.
        for (const [key, at] of [...writing].sort(byKey)) await write(tx, key, at);
      });
    } catch (error) {
      // The disk may be full: the next run writes them, or when they have been used since.
      used = new Map([...writing, ...used]);
      throw error;
    }
  });
  return {
    note: (key, at = clock.now()) => void used.set(key, Math.max(at, used.get(key) ?? 0)),
    flush: loop.run,
    async close() {
      await loop.run();
      await loop.close();
    },
  };
}

function byKey([one]: readonly [string, Micros], [other]: readonly [string, Micros]): number {
  return one < other ? -1 : 1;
}
