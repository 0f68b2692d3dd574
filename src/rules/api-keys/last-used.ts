/**
 * Records when keys were last used, without a write for each use: the times are collected in memory and written in one
 * transaction, every 30 seconds and on closing. A crash loses at most the last 30 seconds.
 */
import type { Store } from '../../foundation/context.ts';
import type { Transaction } from 'kysely';
import type { Background } from '../../foundation/base/background.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';

const FLUSH_EVERY_MS = 30_000;

export interface LastUsed {
  /** Notes that the key was used at that time, by default now. */
  note(key: string, at?: Micros): void;
  /** Writes the collected times. */
  flush(): Promise<void>;
  /** Writes the collected times and ends. */
  close(): Promise<void>;
}

export interface LastUsedOptions extends Store {
  readonly background: Background;
  readonly of: UsedKeys;
}

/** How to write the uses of one kind of keys. */
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
        // In the same order on every node, so that two that write the same keys do not deadlock.
        for (const [key, at] of [...writing].sort(byKey)) await write(tx, key, at);
      });
    } catch (error) {
      // The disk may be full: the next run writes these times, or later ones of the same keys.
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
