/**
 * The part of a move on the node that the directory leaves. During the departure no session is in the directory, nothing changes it, and
 * everything that happened in it is recorded, so that its files can be copied as they are.
 *
 * After a crash before the commit, the directory is at home here, and its mark in `unapplied` lets its user in again before sshd starts.
 * After the commit, it is at home on the other node.
 */
import { setTimeout } from 'node:timers/promises';
import { sql } from 'kysely';
import type { DirectoryRow } from '../../../foundation/db/schema.ts';
import { markPendingApply } from '../../../rules/directories/pending-apply.ts';
import { errorMessage, OperatorError } from '../../../foundation/base/errors.ts';
import type { Draining } from '../../../arrivals/uploads/draining.ts';
import type { MoveLock } from './move-lock.ts';
import { checkTarget, type Move, type Moved, rehome } from './rehome.ts';
import type { Ground } from '../../../foundation/context.ts';

/** How long files that are being written may take to be complete. */
const GRACE_MS = 3000;
/** How often that is checked. */
const POLL_MS = 20;

type Leaving = Pick<DirectoryRow, 'id' | 'sftp_username' | 'node'>;

/** The effects of a departure on this machine. */
export interface Leave {
  readonly local: {
    /** Refuses logins from here on; live sessions go on. */
    lock(username: string): void;
    /** Also ends the live sessions. */
    blockLogins(directory: Leaving): Promise<void>;
  };
  readonly uploads: Draining;
}

export interface DepartureParts {
  readonly moveLock: MoveLock;
  /** Makes the machine match the directory's row again. */
  apply(id: string): Promise<unknown>;
  /** Called when the directory is at home elsewhere. Resolves when its new home has applied that. */
  gone(moved: Moved): Promise<void>;
}

export interface Departure {
  /** Moves the directory's home there. @throws {OperatorError} when that is impossible, or the departure has ended. */
  commit(): Promise<Moved & { readonly isApplied: boolean }>;
  /** Lets the directory's user in again, unless it has moved. Repeatable. */
  end(): Promise<void>;
}

export type Depart = (move: Omit<Move, 'from'>) => Promise<Departure>;

/**
 * The returned function resolves when the files can be copied.
 * @throws {OperatorError} from that function, when the directory cannot move. It then stays as it was.
 */
export function departures(
  { config, database, clock, log }: Ground,
  { local, uploads }: Leave,
  { moveLock, apply, gone }: DepartureParts,
): Depart {
  const { node: here } = config;
  const { db } = database;

  /** Marks the directory, so that its user is let in again after a crash from here on. */
  async function mark({ id, to }: Omit<Move, 'from'>): Promise<Leaving> {
    return db.transaction().execute(async (tx) => {
      await checkTarget(tx, { id, to });
      const found = await tx
        .updateTable('directories')
        // A new version, so that no earlier mark is taken for this one, and removed.
        .set({ version: sql`version + 1` })
        .where('id', '=', id)
        .where('node', '=', here)
        .where('deleted_at', 'is', null)
        .returning(['id', 'sftp_username', 'node', 'version'])
        .executeTakeFirst();
      if (!found) throw new OperatorError(`the directory is not at home on ${here}`);
      await markPendingApply(tx, found);
      return found;
    });
  }

  async function quieten(directory: Leaving): Promise<void> {
    const { id, sftp_username: username } = directory;
    local.lock(username);
    const over = performance.now() + GRACE_MS;
    const begun = await uploads.written(id);
    while (!begun.isDisjointFrom(await uploads.written(id)) && performance.now() < over) await setTimeout(POLL_MS);
    await local.blockLogins(directory);
    while (moveLock.underWay(id) > 0 && performance.now() < over) await setTimeout(POLL_MS);
    if (moveLock.underWay(id) > 0) throw new OperatorError('a request is busy with a file of the directory: try again');
    await uploads.drained(directory);
  }

  return async (move) => {
    const { id } = move;
    if (!moveLock.shut(id)) throw new OperatorError('the directory is being moved already');
    let isOver = false;
    /** Applies the state that the database has by then. */
    async function reopen(): Promise<void> {
      moveLock.open(id);
      await apply(id).catch((error: unknown) => {
        log.error(
          { directory_id: id, reason: errorMessage(error) },
          'could not allow logins to a directory again whose move was given up; this will be retried',
        );
      });
    }
    async function end(): Promise<void> {
      if (isOver) return;
      isOver = true;
      await reopen();
    }
    try {
      const directory = await mark(move);
      await quieten(directory);
      return {
        async commit() {
          if (isOver) throw new OperatorError('the departure has ended: nothing has changed');
          // From here on `end` must not open the directory between the commit and the answer.
          isOver = true;
          const moved = await rehome(db, { ...move, from: here }, clock.now()).catch(async (error: unknown) => {
            await reopen();
            throw error;
          });
          log.info({ directory_id: id, from: here, to: move.to }, 'a directory has moved to another node');
          const isApplied = await gone(moved).then(
            () => true,
            () => false,
          );
          moveLock.open(id);
          return { ...moved, isApplied };
        },
        end,
      };
    } catch (error) {
      await end();
      throw error;
    }
  };
}
