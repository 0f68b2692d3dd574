/** Whether `berth restore` was interrupted at a point where the restored state counts already (`backup/pending-restore.ts`). */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { OperatorError } from '../errors.ts';

type Place = Pick<Config, 'stateDir'>;

/** The folder that is there from that point on until all is in place. */
export function pendingRestore({ stateDir }: Place): string {
  return join(stateDir, 'restore.pending');
}

export function isUnfinished(place: Place): boolean {
  return existsSync(pendingRestore(place));
}

/** @throws {OperatorError} when what is in place now is about to be replaced. */
export function refuseUnfinished(place: Place): void {
  if (!isUnfinished(place)) return;
  throw new OperatorError('a restore was interrupted: start berth, which finishes it first (systemctl start berth)');
}
