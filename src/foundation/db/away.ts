/**
 * Recognizes a database that is temporarily unavailable. Callers wait or report it. They need not do anything when the database
 * returns.
 */
import { errorCode, errorMessage } from '../base/errors.ts';
import { setTimeout as wait } from 'node:timers/promises';

/** Thrown when PostgreSQL is down, restarting or unreachable. `cause` is the driver's or the server's error. */
export class DatabaseUnavailable extends Error {
  readonly code = 'DATABASE_AWAY';

  constructor(cause: unknown) {
    super(`the database does not answer: ${textOf(cause)}`, { cause });
    this.name = 'DatabaseUnavailable';
  }
}

/**
 * Error codes of Node and of PostgreSQL (its manual, appendix A) for a server that is down, starting, full or not the
 * primary.
 */
const AWAY = /^(ECONN\w+|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|E(HOST|NET)UNREACH|08\w{3}|57P0[1-3]|53\w{3}|25006)$/;

/** Messages of errors for which the driver has no codes. */
const AWAY_TEXT = /^(timeout expired|timeout exceeded|Query read timeout|Connection terminated|Client has encountered)/;

/** Whether an error of PostgreSQL's driver means that the database is unavailable. */
export function isAway(error: unknown): boolean {
  return AWAY.test(errorCode(error) ?? '') || AWAY_TEXT.test(textOf(error)) || isMissingSocket(error);
}

/** The error's text; for a host with several addresses, the first one's. */
export function textOf(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return errorMessage(first).replaceAll(/\s+/g, ' ');
}

function isMissingSocket(error: unknown): boolean {
  return errorCode(error) === 'ENOENT' && (error as NodeJS.ErrnoException).syscall === 'connect';
}

// What PostgreSQL did with a commit whose answer was lost: only the database can say that, once it answers again.

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
