/**
 * Removes deleted jails. A jail is out of reach as soon as it is renamed into the trash. Emptying it may take minutes
 * and continues in the background, even after a restart. GNU rm does it, because it opens each folder without following
 * links, at any depth.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import PQueue from 'p-queue';
import { errorCode, isFull } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { makeAgain } from '../../foundation/base/files.ts';
import type { Paths } from './paths.ts';

export interface Trash {
  /**
   * Moves a user's jail into the trash, if there is one, and removes it in the background.
   * @throws {Error} when it could not be moved. If the disk has no room for that, the jail is removed where it is: try again later.
   */
  discard(username: string): void;
  /** Resolves when every jail discarded so far has been removed, or could not be. */
  drained(): Promise<void>;
  /** Aborts the current removal; the next start continues with the remaining ones. */
  close(): Promise<void>;
}

/** Continues with the jails that an earlier process left. */
export function createTrash(paths: Paths, log: Log): Trash {
  const stop = new AbortController();
  // One at a time: removal competes with the uploads for the same disk.
  const queue = new PQueue({ concurrency: 1 });
  /** Users whose jail is being removed where it is. */
  const emptied = new Set<string>();

  async function empty(username: string): Promise<void> {
    if (stop.signal.aborted || (await removeTree(join(paths.trash, username), stop.signal)) || stop.signal.aborted)
      return;
    log.error({ username }, 'a deleted directory could not be removed from the disk; the next start tries again');
  }

  async function emptyInPlace(username: string): Promise<void> {
    emptied.add(username);
    await removeTree(paths.jail(username), stop.signal);
    emptied.delete(username);
  }

  const add = (username: string): void => void queue.add(() => empty(username));
  readdirSync(paths.trash).forEach(add);
  return {
    discard(username) {
      try {
        moveAway(paths.jail(username), join(paths.trash, username));
      } catch (error) {
        // A rename may need a block for the folder, or room in a quota. A removal frees both.
        if (isFull(error) && !emptied.has(username)) void queue.add(() => emptyInPlace(username));
        throw error;
      }
      add(username);
    },
    drained: () => queue.onIdle(),
    close() {
      stop.abort();
      return queue.onIdle();
    },
  };
}

/**
 * Renames a jail into the trash. Usernames are never reused, so the name is free unless an earlier attempt has put the
 * jail there.
 */
function moveAway(jail: string, discarded: string): void {
  if (!lstatSync(jail, { throwIfNoEntry: false })) return;
  makeAgain(dirname(discarded));
  try {
    renameSync(jail, discarded);
  } catch (error) {
    if (errorCode(error) !== 'ENOTEMPTY' && errorCode(error) !== 'EEXIST') throw error;
    renameSync(jail, join(discarded, `again-${process.hrtime.bigint()}`));
  }
}

async function removeTree(path: string, signal: AbortSignal): Promise<boolean> {
  const rm = spawn('rm', ['-rf', '--one-file-system', '--', path], { stdio: 'ignore', signal });
  try {
    const [code] = await once(rm, 'close');
    return code === 0;
  } catch {
    return false; // it could not be started, or was stopped
  }
}
