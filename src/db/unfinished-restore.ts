/** Whether `berth restore` was interrupted at a point where the restored state counts already (`backup/pending-restore.ts`). */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { OperatorError } from '../errors.ts';

type State = Pick<Config, 'stateDir'>;

/** The folder that exists from that point on until all of the restored state is in place. */
export function pendingRestore({ stateDir }: State): string {
  return join(stateDir, 'restore.pending');
}

export function isUnfinished(state: State): boolean {
  return existsSync(pendingRestore(state));
}

/** @throws {OperatorError} when the present state is about to be replaced. */
export function refuseUnfinished(state: State): void {
  if (!isUnfinished(state)) return;
  throw new OperatorError('a restore was interrupted: start berth, which finishes it first (systemctl start berth)');
}
