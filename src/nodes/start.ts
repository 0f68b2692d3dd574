/** This machine among the nodes that share a PostgreSQL. With SQLite none of it runs. */
import type { Kysely } from 'kysely';
import type { Background } from '../background.ts';
import type { Config } from '../config.ts';
import type { Tables } from '../db/schema.ts';
import type { DirectoryHost } from '../directories/host.ts';
import type { Homes } from '../directories/homes.ts';
import type { Log } from '../log.ts';
import { type HostOfAll, hostOfAll } from './host.ts';
import { chooseHome } from './live.ts';
import { createRequests } from './requests.ts';
import { openNodeSession } from './session.ts';

export interface NodesOptions {
  readonly config: Pick<Config, 'database' | 'node' | 'sftp' | 'jailDir'>;
  readonly reads: Kysely<Tables>;
  readonly background: Background;
  readonly log: Log;
}

/** What a home does about changes. */
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
  /** From then on this node is live, and follows what others change. */
  begin(following: Following): Promise<void>;
  close(): Promise<void>;
}

/** Takes this node's name. @throws {OperatorError} when another machine has it. */
export async function startNodes(options: NodesOptions): Promise<Nodes> {
  const { config, reads, log } = options;
  const here = config.node;
  const session = await openNodeSession(options);
  let following: Following | undefined;
  let host: HostOfAll | undefined;
  const failed = (error: unknown): void => log.error({ err: error }, 'could not follow a change, will try again');
  const requests = createRequests({
    reads,
    session,
    apply: (id) => void following?.apply(id).catch(failed),
  });
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
    hostOf: (local) => (host = hostOfAll({ here, local, requests })),
    async begin(given) {
      following = given;
      await session.begin({
        heard: requests.heard,
        joined() {
          host?.forget();
          given.applyAll().catch(failed);
        },
      });
    },
    close: () => session.close(),
  };
}
