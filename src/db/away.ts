/** A database that cannot be asked at the moment: callers wait, or say that they cannot. It comes back without their doing. */
import { errorCode, errorMessage } from '../errors.ts';

/** PostgreSQL is down, is being restarted, or nothing reaches it. `cause` is what the driver or the server said. */
export class DatabaseAway extends Error {
  readonly code = 'DATABASE_AWAY';

  constructor(cause: unknown) {
    super(`the database does not answer: ${textOf(cause)}`, { cause });
    this.name = 'DatabaseAway';
  }
}

/** Whether the database cannot be asked now: PostgreSQL is away, or another process holds the SQLite file. */
export function isUnavailable(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'DATABASE_AWAY' || code === 'SQLITE_BUSY';
}

/** Codes of Node and of PostgreSQL (its manual, appendix A) of a server that is down, starting, full or not the primary. */
const AWAY = /^(ECONN\w+|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|E(HOST|NET)UNREACH|08\w{3}|57P0[1-3]|53\w{3}|25006)$/;

/** The driver has no codes for these. */
const AWAY_TEXT = /^(timeout expired|timeout exceeded|Query read timeout|Connection terminated|Client has encountered)/;

/** Whether an error of PostgreSQL's driver says so. */
export function isAway(error: unknown): boolean {
  return AWAY.test(errorCode(error) ?? '') || AWAY_TEXT.test(textOf(error)) || isMissingSocket(error);
}

/** Of a host with several addresses, the first one's error speaks for all. */
export function textOf(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return errorMessage(first).replaceAll(/\s+/g, ' ');
}

function isMissingSocket(error: unknown): boolean {
  return errorCode(error) === 'ENOENT' && (error as NodeJS.ErrnoException).syscall === 'connect';
}
