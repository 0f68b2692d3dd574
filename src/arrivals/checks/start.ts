/**
 * Wires the checks: received files wait until their names have settled, go to the checker, and are then announced or moved to the
 * quarantine.
 */
import { join } from 'node:path';
import { refusingWhenFull } from '../../rules/directories/storage-full.ts';
import { liveDirectory } from '../../rules/directories/target.ts';
import type { Transfer } from '../../rules/history/transfers.ts';
import type { DirectoryFiles } from '../files/directory-files.ts';
import { checkerOf } from './checker.ts';
import { decisions } from './decisions.ts';
import { heldFiles, type HeldFiles } from './held.ts';
import { createQuarantine, keepAllRejected, quarantinedOf, tidyQuarantine } from './quarantine.ts';
import { Rounds, type RoundsParts } from './rounds.ts';
import type { FilesContext } from '../files/context.ts';

/** How often the quarantine is tidied. */
const TIDY_MS = 3_600_000;

export interface ChecksParts {
  /** The folder of the quarantine. */
  readonly folder: string;
  readonly files: Pick<DirectoryFiles, 'removeChecking'>;
  readonly received: Received;
  readonly observe: RoundsParts['observe'];
}

export interface Checks {
  readonly held: HeldFiles;
  close(): Promise<void>;
}

/** The paths of files in the quarantine. */
export function placesIn(folder: string): (directoryId: string, uploadId: string) => string {
  return (directoryId, uploadId) => join(folder, directoryId, uploadId);
}

/** Without a checker, announces files once their names have settled, and lets operators release and delete. */
export async function startChecks(context: FilesContext, parts: ChecksParts): Promise<Checks> {
  const { config, database, background, clock, transit, through } = context;
  const { folder, files, received, observe } = parts;
  const { reads } = database;
  const placeOf = placesIn(folder);
  const decided = decisions(context, { placeOf, stayed: () => void tidying.run() });
  const quarantine = createQuarantine(context, {
    placeOf,
    announce: (directory, fileId) => decided.pass(directory, fileId),
    released: (id) => rounds.received(id),
  });
  const checker = config.check && checkerOf(config.check.by);
  const rounds: Rounds = new Rounds(context, { decisions: decided, quarantine, checker, observe });
  const tidying = background.start('quarantine', { every: TIDY_MS, atOnce: true }, async (signal) => {
    await tidyQuarantine(context, folder, signal);
    await keepAllRejected(reads, transit, placeOf);
  });
  received.follow((directoryId) => rounds.received(directoryId));
  return {
    held: {
      list: (filter) => heldFiles(reads, filter, { settleSeconds: config.settleSeconds, now: clock.now() }),
      release: (target, id) =>
        refusingWhenFull(() =>
          through(target.id, async () => {
            const file = await quarantinedOf(reads, target.id, id);
            if (file) return quarantine.release(target, file);
            await decided.pass(await liveDirectory(reads, target), id, { actor: target.actor });
          }),
        ),
      async remove(target, id) {
        const file = await quarantinedOf(reads, target.id, id);
        if (file) await refusingWhenFull(() => through(target.id, () => quarantine.remove(target, file)));
        else await files.removeChecking(target, id);
      },
    },
    async close() {
      await tidying.close();
      await rounds.close();
    },
  };
}

/** Reports to the checks which directories have received files. Without checks, a commit costs one comparison. */
export interface Received {
  /** Takes the rows that a commit has added to the history. */
  committed(rows: readonly Transfer[]): void;
  /** From now on, calls `received` for each received file. */
  follow(received: (directoryId: string) => void): void;
}

export function createReceived(): Received {
  let report: ((directoryId: string) => void) | undefined;
  return {
    committed(rows) {
      if (!report) return;
      for (const { event, directory_id: id } of rows) if (event === 'received') report(id);
    },
    follow(received) {
      report = received;
    },
  };
}
