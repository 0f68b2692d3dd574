/**
 * The part of the node that a directory leaves. While it is being left, nobody is in there, nothing of it is changed, and
 * all that happened in it is recorded: its files can be copied as they are.
 *
 * After a crash before the commit, the directory is at home here, and its mark lets its user in again before sshd starts.
 * After the commit it is at home there.
 */
import { setTimeout } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import type { Clock } from '../../base/clock.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { markUnapplied } from '../../directories/unapplied.ts';
import { errorMessage, OperatorError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Draining } from '../../uploads/draining.ts';
import type { MoveLock } from './move-lock.ts';
import { checkTarget, type Move, type Moved, rehome } from './rehome.ts';

/** How long files that are being written then may take to be complete. */
const GRACE_MS = 3000;
/** How often it polls. */
const POLL_MS = 20;

type Leaving = Pick<DirectoriesTable, 'id' | 'sftp_username' | 'node'>;

/** Its effects on this machine. */
export interface Leave {
  readonly local: {
    /** Lets nobody log in from here on; live sessions go on. */
    lock(username: string): void;
    /** Ends the live sessions, too. */
    shutOut(directory: Leaving): Promise<void>;
  };
  readonly uploads: Draining;
}

export interface DeparturesOptions extends Leave {
  readonly db: Kysely<Tables>;
  readonly here: string;
  readonly moveLock: MoveLock;
  readonly clock: Clock;
  readonly log: Log;
  /** Makes the machine agree with the directory's row again. */
  apply(id: string): Promise<unknown>;
  /** The directory is at home elsewhere now. Resolves when its new home has followed. */
  gone(moved: Moved): Promise<void>;
}

export interface Departure {
  /** Has the directory at home there. @throws {OperatorError} when that cannot be, or the departure is over. */
  commit(): Promise<Moved & { readonly isApplied: boolean }>;
  /** Unless it has gone, its user may come in again. Repeatable. */
  end(): Promise<void>;
}

export type Depart = (move: Omit<Move, 'from'>) => Promise<Departure>;

/** Its function resolves when the files can be copied. @throws {OperatorError} when the directory cannot go: it is as before. */
export function departures(options: DeparturesOptions): Depart {
  const { db, here, moveLock, local, uploads, clock, log, apply, gone } = options;

  /** A crash from here on lets its user in again. */
  async function mark({ id, to }: Omit<Move, 'from'>): Promise<Leaving> {
    return db.transaction().execute(async (tx) => {
      await checkTarget(tx, { id, to });
      const found = await tx
        .updateTable('directories')
        // So no mark of before is taken for this one, and removed.
        .set({ version: sql`version + 1` })
        .where('id', '=', id)
        .where('node', '=', here)
        .where('deleted_at', 'is', null)
        .returning(['id', 'sftp_username', 'node', 'version'])
        .executeTakeFirst();
      if (!found) throw new OperatorError(`the directory is not at home on ${here}`);
      await markUnapplied(tx, found);
      return found;
    });
  }

  async function quieten(directory: Leaving): Promise<void> {
    const { id, sftp_username: username } = directory;
    local.lock(username);
    const over = performance.now() + GRACE_MS;
    const begun = await uploads.written(id);
    while (!begun.isDisjointFrom(await uploads.written(id)) && performance.now() < over) await setTimeout(POLL_MS);
    await local.shutOut(directory);
    while (moveLock.underWay(id) > 0 && performance.now() < over) await setTimeout(POLL_MS);
    if (moveLock.underWay(id) > 0) throw new OperatorError('a request is busy with a file of the directory: try again');
    await uploads.drained(directory);
  }

  return async (move) => {
    const { id } = move;
    if (!moveLock.shut(id)) throw new OperatorError('the directory is on its way already');
    let isOver = false;
    /** Applies what the database says by then. */
    async function reopen(): Promise<void> {
      moveLock.open(id);
      await apply(id).catch((error: unknown) => {
        log.error(
          { directory_id: id, reason: errorMessage(error) },
          'a directory that has not moved will be opened again',
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
          if (isOver) throw new OperatorError('the departure is over: nothing has changed');
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
