/**
 * Where directories are at home: on the node that has a directory's jail and lets its user in. Every node changes any
 * directory in the database; its home alone makes the disk follow.
 */
import type { Transaction } from 'kysely';
import type { Config } from '../base/config.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { BerthError } from '../base/errors.ts';

/** A node, and the address that its users are given. */
export type Home = Pick<DirectoriesTable, 'node' | 'sftp_host' | 'sftp_port'>;

/** A directory as it was at one of its changes. */
export type Version = Pick<DirectoriesTable, 'id' | 'version'>;

export interface Homes {
  /** The node that this process runs on. */
  readonly here: string;
  /**
   * Where a new directory goes, asked in its transaction.
   * @param tried nodes that are out of the question.
   * @throws {BerthError} `home_unavailable` when no node takes it.
   */
  choose(tx: Transaction<Tables>, tried?: readonly string[]): Promise<Home>;
  /** This node's disk agrees with that version: tells those that wait for it on other nodes. */
  applied(directory: Version): Promise<void>;
}

/** A single machine has all directories. */
export function onlyHome({ node, sftp }: Pick<Config, 'node' | 'sftp'>): Homes {
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

/** Whether an error says that a home did not answer, or that no node takes a new directory. */
export function isHomeAway(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'home_unavailable';
}
