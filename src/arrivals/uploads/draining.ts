/**
 * Waits until everything that sessions did in a directory is recorded, so that its files can move to another machine.
 */
import { setTimeout } from 'node:timers/promises';
import { yielder } from '../../foundation/base/event-loop.ts';
import type { Jail } from './jails.ts';
import { filesHeldBy } from './processes.ts';
import type { Recorder } from './story/recorder.ts';
import type { WaitingFiles } from './waiting-files.ts';

/**
 * How long draining may take, in ms. A scan finds files that are not recorded by then, on whichever machine they are.
 */
const TIMEOUT_MS = 4000;
/** How often draining polls, in ms. */
const POLL_MS = 20;

export interface DrainingOptions {
  /** Resolves once every line that sshd logged about the directory before the call has been interpreted. */
  caughtUp(jail: Jail): Promise<void>;
  /** The processes of the directory's live sessions. */
  pidsOf(directoryId: string): readonly number[];
  /** Ends sessions whose process died without a line. */
  sweep(): Promise<void>;
  readonly waiting: Pick<WaitingFiles, 'abandonedIn'>;
  readonly recorder: Pick<Recorder, 'isSettled'>;
}

export interface Draining {
  /**
   * The inodes that the directory's sessions have open for writing, as the kernel says now. Yields between sessions,
   * since each may have a thousand files open.
   */
  written(directoryId: string): Promise<ReadonlySet<number>>;
  /** For a directory whose sessions have ended: resolves when all of their uploads are recorded. */
  drained(jail: Jail): Promise<void>;
}

export function createDraining({ caughtUp, pidsOf, sweep, waiting, recorder }: DrainingOptions): Draining {
  return {
    async written(id) {
      const pause = yielder();
      const inodes = new Set<number>();
      for (const pid of pidsOf(id)) {
        for (const { inode } of filesHeldBy(pid)) inodes.add(inode);
        await pause();
      }
      return inodes;
    },
    async drained(jail) {
      const over = performance.now() + TIMEOUT_MS;
      const waitWhile = async (isSo: () => boolean): Promise<void> => {
        while (isSo() && performance.now() < over) await setTimeout(POLL_MS);
      };
      await caughtUp(jail);
      while (pidsOf(jail.id).length > 0 && performance.now() < over) {
        await sweep();
        if (pidsOf(jail.id).length > 0) await setTimeout(POLL_MS);
      }
      await waitWhile(() => !recorder.isSettled(jail.id));
      await waiting.abandonedIn(jail);
      await waitWhile(() => !recorder.isSettled(jail.id));
    },
  };
}
