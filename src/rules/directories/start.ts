/** Wires the rules of directories to the machine on which they live. */
import type { Log } from '../../foundation/base/log.ts';
import type { CreateOptions } from './create.ts';
import { applyPending, applyRequested } from './pending-apply.ts';
import { createRowRemoval, type RowRemovalOptions } from './row-removal.ts';

export interface DirectoriesOptions extends Omit<CreateOptions, 'removal'> {
  readonly log: Log;
  /** This machine alone. */
  readonly local: RowRemovalOptions['host'];
}

export interface Directories {
  /** The options of all rules. */
  readonly rules: CreateOptions;
  /** Makes this machine follow the changes of one directory, and reports that to other nodes. */
  apply(id: string): Promise<unknown>;
  /** The same for all changes that are pending here. */
  applyAll(): Promise<unknown>;
  close(): Promise<void>;
}

/** Call `applyAll` before the first change: an earlier process may have left changes. */
export function startDirectories(options: DirectoriesOptions): Directories {
  const { database, clock, host, placement, log, local } = options;
  const removal = createRowRemoval({ database, log, host: local });
  const rules = { database, clock, host, placement, removal };
  return {
    rules,
    apply: (id) => applyRequested(rules, id),
    applyAll: () => applyPending({ ...rules, log }),
    close: removal.close,
  };
}
