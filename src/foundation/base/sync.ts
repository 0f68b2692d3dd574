/** Waits until written data is on the disk, where it survives a power cut. A new file's folder needs a sync, too, for its name. */
import { closeSync, constants, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorCode } from './errors.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Syncs a file, or the names in a folder. */
export function sync(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Syncs several files at once, in the thread pool. Skips missing ones. */
export async function syncAll(paths: readonly string[]): Promise<void> {
  await Promise.all(paths.map(syncIfThere));
}

async function syncIfThere(path: string): Promise<void> {
  try {
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    await file.sync();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
