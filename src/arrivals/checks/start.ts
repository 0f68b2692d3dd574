/**
 * Wires the checks: received files wait until their names have settled, go to the checker, and are then announced or moved to the
 * quarantine.
 */
import type { IsTemporary } from '../uploads/file-path.ts';
import { join } from 'node:path';
import type { Background } from '../../foundation/base/background.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import type { ClockLead } from '../../foundation/db/clock-lead.ts';
import type { CheckSettings } from '../../foundation/base/config.ts';
import type { Database } from '../../foundation/db/open.ts';
import { refusingWhenFull } from '../../rules/directories/storage-full.ts';
import { liveDirectory } from '../../rules/directories/target.ts';
import type { Transfer } from '../../rules/history/transfers.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { DirectoryFiles } from '../files/directory-files.ts';
import type { FileAccess } from '../files/start.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { Transact } from '../../foundation/db/transact.ts';
import { checkerOf } from './checker.ts';
import { decisions } from './decisions.ts';
import { heldFiles, type HeldFiles } from './held.ts';
import { createQuarantine, keepAllRejected, quarantinedOf, tidyQuarantine } from './quarantine.ts';
import { Rounds, type RoundsOptions } from './rounds.ts';

/** How often the quarantine is tidied. */
const TIDY_MS = 3_600_000;

export interface ChecksOptions {
  readonly database: Database;
  readonly background: Background;
  readonly clock: Clock;
  readonly clockLead: ClockLead;
  readonly log: Log;
  readonly node: string;
  /** The folder of the quarantine. */
  readonly folder: string;
  readonly historyDays: number;
  /** How long a name may not have changed; 0 if that does not matter. */
  readonly settleSeconds: number;
  /** Undefined when nothing is checked. */
  readonly settings: CheckSettings | undefined;
  readonly transact: Transact;
  readonly isUnannounced?: IsTemporary | undefined;
  readonly access: FileAccess;
  readonly files: Pick<DirectoryFiles, 'removeChecking'>;
  readonly received: Pick<Received, 'follow'>;
  readonly through: RoundsOptions['through'] | undefined;
  readonly observe: RoundsOptions['observe'];
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
export async function startChecks(options: ChecksOptions): Promise<Checks> {
  const { database, background, clock, settings, settleSeconds, folder, files, access } = options;
  const { reads } = database;
  const through = options.through ?? ((_id, work) => work());
  const placeOf = placesIn(folder);
  const deciding = { ...options, placeOf, stayed: () => void tidying.run() };
  const decided = decisions(deciding);
  const announce = (directory: DirectoryRow, fileId: string) => decided.pass(directory, fileId);
  const quarantine = createQuarantine({ ...deciding, announce, released: (id) => rounds.received(id) });
  const rounds: Rounds = new Rounds({
    ...options,
    ...database,
    decisions: decided,
    quarantine,
    checker: settings && checkerOf(settings.by),
    through,
  });
  const tidying = background.start('quarantine', { every: TIDY_MS, atOnce: true }, async (signal) => {
    await tidyQuarantine(options, signal);
    await keepAllRejected(reads, access.transit, placeOf);
  });
  options.received.follow((directoryId) => rounds.received(directoryId));
  return {
    held: {
      list: (filter) => heldFiles(reads, filter, { settleSeconds, now: clock.now() }),
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
