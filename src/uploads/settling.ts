/** When all that sessions did in a directory is recorded, so that its files can go to another machine. */
import { setTimeout } from 'node:timers/promises';
import { yielder } from '../event-loop.ts';
import type { Jail } from './jails.ts';
import { filesHeldBy } from './processes.ts';
import type { Recorder } from './story/recorder.ts';
import type { WaitingFiles } from './waiting-files.ts';

/** How long it may take, in ms. What is not settled by then, a scan of the files tells wherever they are. */
const PATIENCE = 4000;
/** Between looks, in ms. */
const LOOK = 20;

export interface SettlingOptions {
  /** Resolves when all has been followed that sshd had logged of the directory before the call. */
  caughtUp(jail: Jail): Promise<void>;
  /** The processes of the directory's live sessions. */
  pidsOf(directoryId: string): readonly number[];
  /** Ends sessions whose process died without a word. */
  sweep(): Promise<void>;
  readonly waiting: Pick<WaitingFiles, 'abandonedIn'>;
  readonly recorder: Pick<Recorder, 'isSettled'>;
}

export interface Settling {
  /**
   * The inodes that sessions of that directory have open for writing, asked of the kernel now. Yields between sessions,
   * each of which may have a thousand files open.
   */
  written(directoryId: string): Promise<ReadonlySet<number>>;
  /** Of a directory whose sessions have ended. */
  settled(jail: Jail): Promise<void>;
}

export function createSettling({ caughtUp, pidsOf, sweep, waiting, recorder }: SettlingOptions): Settling {
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
    async settled(jail) {
      const over = performance.now() + PATIENCE;
      const waitWhile = async (isSo: () => boolean): Promise<void> => {
        while (isSo() && performance.now() < over) await setTimeout(LOOK);
      };
      await caughtUp(jail);
      while (pidsOf(jail.id).length > 0 && performance.now() < over) {
        await sweep();
        if (pidsOf(jail.id).length > 0) await setTimeout(LOOK);
      }
      await waitWhile(() => !recorder.isSettled(jail.id));
      await waiting.abandonedIn(jail);
      await waitWhile(() => !recorder.isSettled(jail.id));
    },
  };
}
