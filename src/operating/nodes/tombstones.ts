/**
 * The users whose directories were deleted on this node, an empty file for each. No username is given out twice, so none of them can
 * ever log in again, even if the database has lost the deletion, for example by a failover to a standby that lagged.
 */
import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { syncAll } from '../../foundation/base/sync.ts';
import { isThere } from '../../foundation/base/there.ts';

export interface Tombstones {
  has(username: string): boolean;
  /** Resolves when no power cut can undo it. */
  add(username: string): Promise<void>;
}

export function tombstonesIn(stateDir: string): Tombstones {
  const folder = join(stateDir, 'deleted-users');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    has: (username) => isThere(join(folder, username)),
    async add(username) {
      await writeFile(join(folder, username), '', { mode: 0o600 });
      await syncAll([folder]);
    },
  };
}
