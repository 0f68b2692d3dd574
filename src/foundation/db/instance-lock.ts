/**
 * Allows one `berth serve` per state folder: a second would take the first one's sockets and send its webhooks. The
 * lock is SQLite's own on a file beside the database. The kernel releases it when the process ends for any reason. Only
 * the file's owner can open it: any process that can could lock it for as long as it likes.
 */
import Sqlite from 'better-sqlite3';
import { errorCode, OperatorError } from '../base/errors.ts';
import { makePrivate } from '../base/files.ts';

/**
 * Takes the lock and holds it until it is disposed of.
 * @throws {OperatorError} when another process has it.
 */
export function lockInstance(file: string): Disposable {
  const lock = tryLock(file);
  if (lock) return lock;
  throw new OperatorError(
    `another berth serve runs with ${file}: stop it first, or give this one a BERTH_STATE_DIR of its own`,
  );
}

/** Like `lockInstance`, but returns undefined when another process has the lock. */
export function tryLock(file: string): Disposable | undefined {
  makePrivate(file);
  const sqlite = new Sqlite(file, { timeout: 0 });
  try {
    sqlite.exec('begin exclusive');
  } catch (error) {
    sqlite.close();
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
    return undefined;
  }
  return { [Symbol.dispose]: () => void sqlite.close() };
}
