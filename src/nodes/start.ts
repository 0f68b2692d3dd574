/** This machine among the nodes that share a PostgreSQL. With SQLite none of it runs. */
import type { Kysely } from 'kysely';
import type { Background, Loop } from '../base/background.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { Tables } from '../db/schema.ts';
import type { DirectoryHost } from '../directories/host.ts';
import type { Homes } from '../directories/homes.ts';
import type { Log } from '../base/log.ts';
import { pathsOf } from '../sftp/paths.ts';
import type { DirectoryFiles } from '../files/directory-files.ts';
import { filesHere } from './files.ts';
import { type HostOfAll, hostOfAll } from './host.ts';
import { removeLeftovers } from './leftovers.ts';
import { chooseHome } from './live.ts';
import { removeAbandoned } from './move/abandoned.ts';
import { departures, type Depart, type Leave } from './move/departure.ts';
import { createMoveLock } from './move/move-lock.ts';
import type { Moved } from './move/rehome.ts';
import { sayQuotaObstacle } from './quotas.ts';
import { createRequests } from './requests.ts';
import { openNodeSession } from './session.ts';
import { tombstonesIn } from './tombstones.ts';

/** How often what has gone to other nodes is removed. */
const LEFTOVERS_MS = 5000;
/** How often files are looked for whose directories did not come. */
const ABANDONED_MS = 3_600_000;

export interface NodesOptions {
  readonly config: Pick<Config, 'database' | 'node' | 'apiUrl' | 'sftp' | 'jailDir' | 'stateDir' | 'runtimeDir'>;
  readonly db: Kysely<Tables>;
  readonly reads: Kysely<Tables>;
  readonly background: Background;
  readonly clock: Clock;
  readonly log: Log;
}

/** How a home follows changes. */
export interface Following {
  /** One directory has changed. */
  apply(id: string): Promise<unknown>;
  /** Any may have: this node was away. */
  applyAll(): Promise<unknown>;
}

export interface Nodes {
  readonly homes: Homes;
  /** The host of all directories, from that of this machine. */
  hostOf(local: DirectoryHost): DirectoryHost;
  /** The files of directories that are at home here. */
  filesOf(own: DirectoryFiles): DirectoryFiles;
  /** Whether a directory is on its way to another node: nothing of it may be changed. */
  isShut(directoryId: string): boolean;
  /** Runs what changes one that is not. @throws {BerthError} `home_unavailable`. */
  through<T>(directoryId: string, work: () => Promise<T>): Promise<T>;
  /** How directories leave this node. */
  departures(leave: Leave): Depart;
  /** Whether nothing can be asked of the database. */
  isCutOff(): boolean;
  /** From then on this node is live, and follows what others change. */
  begin(following: Following): Promise<void>;
  close(): Promise<void>;
}

/** Takes this node's name. @throws {OperatorError} when another machine has it. */
export async function startNodes(options: NodesOptions): Promise<Nodes> {
  const { config, db, reads, background, clock, log } = options;
  const here = config.node;
  const session = await openNodeSession(options);
  let following: Following | undefined;
  let host: HostOfAll | undefined;
  let leftovers: Loop | undefined;
  const tombstones = tombstonesIn(config.stateDir);
  const moveLock = createMoveLock();
  const arrivals = { reads, here, paths: pathsOf(config) };
  const abandoned = background.start('abandoned-moves', { every: ABANDONED_MS }, () => removeAbandoned(arrivals));
  const failed = (error: unknown): void => log.error({ err: error }, 'could not follow a change, will try again');
  const apply = async (id: string): Promise<void> => void (await following?.apply(id));
  const requests = createRequests({ reads, session, apply: (id) => void apply(id).catch(failed) });

  async function gone(moved: Moved): Promise<void> {
    host?.departed(moved);
    void leftovers?.run();
    await requests.ask(moved, false);
  }

  async function sayObstacle(): Promise<void> {
    if (host) await sayQuotaObstacle(session.db(), here, await host.quotaObstacle({ node: here }));
  }

  return {
    homes: {
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
      const left = { db, reads, here, host: local };
      leftovers = background.start('leftovers', { every: LEFTOVERS_MS, atOnce: true }, () => removeLeftovers(left));
      return (host = hostOfAll({ here, reads, local, requests, tombstones, moveLock, clock, log }));
    },
    filesOf: (own) => filesHere(own, { reads, here, moveLock }),
    isShut: moveLock.isShut,
    through: moveLock.through,
    departures: (leave) => departures({ ...leave, db, here, moveLock, clock, log, apply, gone }),
    async begin(given) {
      following = given;
      await session.begin({
        heard: requests.heard,
        joined() {
          host?.forget();
          given.applyAll().catch(failed);
          sayObstacle().catch(failed);
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
