/** Who may use a state folder: one `berth serve` at a time, and nobody while a restore is half-way (`backup/place.ts`). */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { Config } from '../config.ts';
import { errorCode, OperatorError } from '../errors.ts';

type State = Pick<Config, 'stateDir'>;

/**
 * Holds the lock until it is disposed of: a second `berth serve` would take the first one's sockets and send its webhooks.
 * The lock is SQLite's own on a file, which the kernel lets go of with the process, however it ends.
 * @throws {OperatorError} when another process has it.
 */
export function lockState({ stateDir }: State): Disposable {
  const file = join(stateDir, 'serve.lock');
  const sqlite = new Sqlite(file, { timeout: 0 });
  try {
    sqlite.exec('begin exclusive');
  } catch (error) {
    sqlite.close();
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
    throw new OperatorError(
      `another berth serve runs with ${file}: stop it first, or give this one a BERTH_STATE_DIR of its own`,
      { cause: error },
    );
  }
  return { [Symbol.dispose]: () => void sqlite.close() };
}

/** The folder that is there from the point on where the restored state counts, until all of it is in place. */
export function pendingRestore({ stateDir }: State): string {
  return join(stateDir, 'restore.pending');
}

/** Whether a restore was interrupted after that point. */
export function isUnfinished(state: State): boolean {
  return existsSync(pendingRestore(state));
}

/** @throws {OperatorError} when the present state is about to be replaced. */
export function refuseUnfinished(state: State): void {
  if (!isUnfinished(state)) return;
  throw new OperatorError('a restore was interrupted: start berth, which finishes it first (systemctl start berth)');
}
