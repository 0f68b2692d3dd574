/**
 * Deleted jails. A jail is out of reach as soon as it is renamed into the trash; emptying it may take minutes and goes
 * on in the background, after a restart too. GNU rm does it: it opens each folder without following links, at any depth.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Paths } from './paths.ts';

export interface Trash {
  /** Moves a user's jail here and begins to empty it; `onEmptied` follows, also when there is no jail any more. */
  discard(username: string): void;
  /** Goes on with what an earlier process left. */
  resume(): void;
  /** Resolves when all that was discarded so far has gone, or could not be removed. */
  settled(): Promise<void>;
  /** Ends the removal that is under way; what is left waits for `resume`. */
  close(): Promise<void>;
}

export interface TrashOptions {
  readonly paths: Paths;
  readonly log: Log;
  /** Nothing of that user's jail is left on the disk. */
  readonly onEmptied: (username: string) => void;
}

export function createTrash({ paths, log, onEmptied }: TrashOptions): Trash {
  const stop = new AbortController();
  const waiting = new Set<string>();
  let running: Promise<void> | undefined;

  /** One at a time: removal competes with the uploads for the same disk. */
  async function empty(): Promise<void> {
    // A Set is walked in order of insertion, and sees what is added on the way.
    for (const username of waiting) {
      const done = await removeTree(join(paths.trash, username), stop.signal);
      if (stop.signal.aborted) return;
      waiting.delete(username);
      if (done) onEmptied(username);
      else
        log.error({ username }, 'a deleted directory could not be removed from the disk; the next start tries again');
    }
  }

  function add(username: string): void {
    waiting.add(username);
    run();
  }

  function run(): void {
    if (stop.signal.aborted || waiting.size === 0) return;
    running ??= empty().finally(() => {
      running = undefined;
      run(); // what was added after the last look
    });
  }

  return {
    discard(username) {
      moveAway(paths.jail(username), join(paths.trash, username));
      add(username);
    },
    resume() {
      for (const username of readdirSync(paths.trash)) add(username);
    },
    async settled() {
      for (let latest = running; latest; latest = running) await latest;
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** Usernames are never used again, so the place is free, or an earlier attempt has put the jail there. */
function moveAway(jail: string, place: string): void {
  if (lstatSync(jail, { throwIfNoEntry: false }) === undefined) return;
  try {
    renameSync(jail, place);
  } catch (error) {
    if (errorCode(error) !== 'ENOTEMPTY' && errorCode(error) !== 'EEXIST') throw error;
    renameSync(jail, join(place, `again-${process.hrtime.bigint()}`));
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
