/**
 * A directory's home is the node that has its jail and accepts its user's logins. Any node can change any directory in the
 * database; only its home makes the disk follow.
 */
import type { Kysely, Transaction } from 'kysely';
import type { Config } from '../../foundation/base/config.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';

/** A node, and the SFTP address for its users. */
export type Home = Pick<DirectoryRow, 'node' | 'sftp_host' | 'sftp_port'>;

/** A version of a directory's row. */
export type Version = Pick<DirectoryRow, 'id' | 'version'>;

export interface NodePlacement {
  /** The node that this process runs on. */
  readonly here: string;
  /**
   * Chooses the home of a new directory, in the transaction that creates it.
   * @param tried nodes that were tried in vain.
   * @throws {BerthError} `home_unavailable` when no node takes it.
   */
  choose(tx: Transaction<Tables>, tried?: readonly string[]): Promise<Home>;
  /** Reports to other nodes, where callers may wait for it, that this node's disk agrees with that version. */
  applied(directory: Version): Promise<void>;
}

/** For a single machine: every directory is at home here. */
export function onlyHome({ node, sftp }: Pick<Config, 'node' | 'sftp'>): NodePlacement {
  const home: Home = { node, sftp_host: sftp.host, sftp_port: sftp.port };
  return {
    here: node,
    async choose(_tx, tried = []) {
      if (tried.includes(node)) throw new BerthError('home_unavailable', 'New directories cannot be made now');
      return home;
    },
    applied: async () => undefined,
  };
}

/** Gives all directories at home here the SFTP address of the settings, which may have changed since they were made. */
export async function readdress(
  { db }: { readonly db: Kysely<Tables> },
  { node, sftp: { host, port } }: Pick<Config, 'node' | 'sftp'>,
  log: Log,
): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('directories')
    .set({ sftp_host: host, sftp_port: port })
    .where('node', '=', node)
    .where((eb) => eb.or([eb('sftp_host', '<>', host), eb('sftp_port', '<>', port)]))
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return;
  log.warn(
    { directories: Number(numUpdatedRows), sftp_host: host, sftp_port: port },
    'BERTH_SFTP_HOST or BERTH_SFTP_PORT has changed: from now on answers and pages show the new address, which customers have to use',
  );
}

/** Whether the error means that a home did not answer, or that no node takes a new directory. */
export function isHomeAway(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'home_unavailable';
}
