/**
 * Deleted jails. A jail is out of reach as soon as it is renamed into the trash; emptying it may take minutes and goes
 * on in the background, after a restart too. GNU rm does it: it opens each folder without following links, at any depth.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import PQueue from 'p-queue';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Paths } from './paths.ts';

export interface Trash {
  /** Moves a user's jail here, if there is one, and removes it in the background. */
  discard(username: string): void;
  /** Resolves when all that was discarded so far has gone, or could not be removed. */
  settled(): Promise<void>;
  /** Ends the removal that is under way; the next start goes on with what is left. */
  close(): Promise<void>;
}

/** Goes on with what an earlier process left. */
export function createTrash(paths: Paths, log: Log): Trash {
  const stop = new AbortController();
  // One at a time: removal competes with the uploads for the same disk.
  const queue = new PQueue({ concurrency: 1 });

  async function empty(username: string): Promise<void> {
    if (stop.signal.aborted || (await removeTree(join(paths.trash, username), stop.signal)) || stop.signal.aborted)
      return;
    log.error({ username }, 'a deleted directory could not be removed from the disk; the next start tries again');
  }

  const add = (username: string): void => void queue.add(() => empty(username));
  readdirSync(paths.trash).forEach(add);
  return {
    discard(username) {
      moveAway(paths.jail(username), join(paths.trash, username));
      add(username);
    },
    settled: () => queue.onIdle(),
    close() {
      stop.abort();
      return queue.onIdle();
    },
  };
}

/** Usernames are never used again, so the name is free, or an earlier attempt has put the jail there. */
function moveAway(jail: string, discarded: string): void {
  if (!lstatSync(jail, { throwIfNoEntry: false })) return;
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
    return false; // it could not be started, or was told to stop
  }
}
