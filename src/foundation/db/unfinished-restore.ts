/**
 * Detects a `berth restore` that was interrupted after the restored state had become the valid one (`backup/pending-restore.ts`).
 */
import { join } from 'node:path';
import type { Config } from '../base/config.ts';
import { OperatorError } from '../base/errors.ts';
import { isThere } from '../base/files.ts';

type State = Pick<Config, 'stateDir'>;

/** The folder that exists from that moment until the whole restored state is in place. */
export function pendingRestore({ stateDir }: State): string {
  return join(stateDir, 'restore.pending');
}

export function isUnfinished(state: State): boolean {
  return isThere(pendingRestore(state));
}

/** @throws {OperatorError} when the present state is about to be replaced. */
export function refuseUnfinished(state: State): void {
  if (!isUnfinished(state)) return;
  throw new OperatorError('a restore was interrupted: start berth, which finishes it first (systemctl start berth)');
}
