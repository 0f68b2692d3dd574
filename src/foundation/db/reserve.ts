/**
 * Keeps room on the state's disk for revoking access: for SQLite's commit and the credentials. The room is a file, which is
 * removed when the disk is full, and made again when there is space. Without it, nobody could stop a customer who fills the
 * disk that has the state.
 */
import { rmSync, statfsSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** The size of the reserve: some twenty times what a deletion writes to the database's log and to the folders on the same disk. */
const BYTES = 1 << 20;

export interface Reserve {
  /** Removes the file, if it is there. */
  release(): void;
  /** Makes the file, unless it exists or the disk is too full for it. */
  refill(): Promise<void>;
}

export function reserveBeside(database: string): Reserve {
  const file = `${database}.reserve`;
  return {
    release: () => rmSync(file, { force: true }),
    async refill() {
      if (statSync(file, { throwIfNoEntry: false })?.size === BYTES) return;
      const { bavail, bsize } = statfsSync(dirname(file));
      if (bavail * bsize < 4 * BYTES) return;
      await using written = await open(file, 'w', 0o600);
      await written.writeFile(Buffer.alloc(BYTES));
      await written.sync(); // before that, the file system may not have allocated the blocks
    },
  };
}
