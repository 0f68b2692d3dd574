/** What PostgreSQL did with a commit whose answer was lost: only the database can say that, once it answers again. */
import { setTimeout as wait } from 'node:timers/promises';
import { DatabaseUnavailable } from './away.ts';

/** How long a request waits for that, and how often it asks, in ms. */
const DOUBT_MS = 10_000;
const POLL_MS = 200;

/** Whether the transaction that threw the error may have been committed. */
export function mayBeCommitted(error: unknown): boolean {
  return error instanceof DatabaseUnavailable;
}

/** Asks until the database answers. @throws the last error when that takes too long. */
export async function onceAvailable<T>(ask: () => Promise<T>): Promise<T> {
  for (const over = performance.now() + DOUBT_MS; ; await wait(POLL_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!mayBeCommitted(error) || performance.now() > over) throw error;
    }
  }
}
