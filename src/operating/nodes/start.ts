/** Makes this machine one of the nodes that share a PostgreSQL database. None of this runs with SQLite. */
import type { Loop } from '../../foundation/base/background.ts';
import type { DirectoryHost, NodePlacement } from '../../rules/directories/host.ts';
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';
import { filesHere, hostOfAll, type HostOfAll, recordQuotaObstacle } from './host.ts';
import { removeLeftovers, tombstonesIn } from './leftovers.ts';
import { chooseHome } from './list.ts';
import { removeAbandoned } from './move/receive.ts';
import { type Depart, departures, type Leave } from './move/departure.ts';
import { createMoveLock } from './move/move-lock.ts';
import type { Moved } from './move/rehome.ts';
import { createRequests } from './requests.ts';
import { openNodeSession } from './session.ts';
import type { Ground } from '../../foundation/context.ts';

/** How often the remains of directories that have moved away are removed. */
const LEFTOVERS_MS = 5000;
/** How often files of abandoned moves are searched for. */
const ABANDONED_MS = 3_600_000;

/** Applies changes on a directory's home. */
export interface Following {
  /** Applies the changes of one directory. */
  apply(id: string): Promise<unknown>;
  /** Applies all changes, since this node was away. */
  applyAll(): Promise<unknown>;
}

export interface Nodes {
  readonly placement: NodePlacement;
  /** The host of all directories, built on the host of this machine. */
  hostOf(local: DirectoryHost): DirectoryHost;
  /** File operations on directories that are at home here. */
  filesOf(own: DirectoryFiles): DirectoryFiles;
  /** Whether a directory is moving to another node, so that nothing may change it. */
  isShut(directoryId: string): boolean;
  /** Runs a change of a directory that is not moving. @throws {BerthError} `home_unavailable`. */
  through<T>(directoryId: string, work: () => Promise<T>): Promise<T>;
  /** Makes directories leave this node; undefined when there is no other. */
  departures(leave: Leave): Depart | undefined;
  /** Whether this node has no connection to the database. */
  isCutOff(): boolean;
  /** Makes this node live, and applies changes made on other nodes. */
  begin(following: Following): Promise<void>;
  close(): Promise<void>;
}

/** Takes this node's name. @throws {OperatorError} when another machine has it. */
export async function startNodes(ground: Ground): Promise<Nodes> {
  const { config, database, background, log } = ground;
  const { reads } = database;
  const here = config.node;
  const session = await openNodeSession(ground);
  let following: Following | undefined;
  let host: HostOfAll | undefined;
  let leftovers: Loop | undefined;
  const tombstones = tombstonesIn(config.stateDir);
  const moveLock = createMoveLock();
  const abandoned = background.start('abandoned-moves', { every: ABANDONED_MS }, () => removeAbandoned(reads, config));
  const failed = (error: unknown): void => log.error({ err: error }, 'could not apply a change, and will retry');
  const apply = async (id: string): Promise<void> => void (await following?.apply(id));
  const requests = createRequests(reads, session, (id) => void apply(id).catch(failed));

  async function gone(moved: Moved): Promise<void> {
    host?.departed(moved);
    void leftovers?.run();
    await requests.send(moved, false);
  }

  async function recordObstacle(): Promise<void> {
    if (host) await recordQuotaObstacle(session.db(), here, await host.quotaObstacle({ node: here }));
  }

  return {
    placement: {
      here,
      choose: (tx, tried = []) => chooseHome(tx, here, tried),
      async applied({ id, version }) {
        const { numUpdatedRows } = await session
          .db()
          .updateTable('unapplied')
          .set({ done: version })
          .where('directory_id', '=', id)
          .where('done', '<', version)
          .executeTakeFirst();
        if (numUpdatedRows > 0n) await requests.applied(id);
      },
    },
    isCutOff: session.isCutOff,
    hostOf(local) {
      const removing = () => removeLeftovers(ground, local);
      leftovers = background.start('leftovers', { every: LEFTOVERS_MS, atOnce: true }, removing);
      return (host = hostOfAll(ground, { local, requests, tombstones, moveLock }));
    },
    filesOf: (own) => filesHere(ground, moveLock, own),
    isShut: moveLock.isShut,
    through: moveLock.through,
    departures: (leave) => departures(ground, leave, { moveLock, apply, gone }),
    async begin(given) {
      following = given;
      await session.begin({
        onMessage: requests.onMessage,
        onJoined() {
          host?.forget();
          given.applyAll().catch(failed);
          recordObstacle().catch(failed);
        },
      });
    },
    async close() {
      await leftovers?.close();
      await abandoned.close();
      await session.close();
    },
  };
}
