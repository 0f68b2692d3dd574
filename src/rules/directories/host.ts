/**
 * The interface between the rules and the machine that serves a directory over SFTP. `sftp/` implements the host for
 * this machine; nothing else in `directories/` knows that there is a disk or an sshd.
 */
import type { Kysely, Transaction } from 'kysely';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import type { Config } from '../../foundation/base/config.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';

/** The columns that decide a directory's jail, credentials and limits. */
export const HOSTED = [
  'id',
  'sftp_username',
  'uid',
  'password_hash',
  'auth_mode',
  'public_key',
  'max_connections',
  'quota_bytes',
  'suspended',
  'expires_at',
  'allowed_networks',
  'node',
  'version',
] as const satisfies readonly (keyof DirectoryRow)[];

export type HostedDirectory = Pick<DirectoryRow, (typeof HOSTED)[number]>;

export interface DirectoryHost {
  /**
   * Makes the jail, the credentials and the limits agree with the row, whatever was there. The directory is live when this
   * resolves; if it is suspended, its sessions have ended. Repeatable.
   * Throws the system's error (`ENOSPC`, …) when the disk refuses, and `home_unavailable`, like all of these methods, when the
   * directory's home is another node and does not answer.
   * @param isNew whether the directory could still go to another node. Then a home that is away is not waited for.
   */
  apply(directory: HostedDirectory, isNew?: boolean): Promise<void>;
  /** Why the directory's home cannot set quotas, as a message for the caller; undefined when it can. */
  quotaObstacle(directory: Pick<HostedDirectory, 'node'>): Promise<string | undefined>;
  /** Whether `apply` would change nothing. Reads only. */
  isApplied(directory: HostedDirectory): boolean;
  /** Ends the live sessions of a user whom sshd already refuses. Repeatable. */
  endSessions(directory: Pick<HostedDirectory, 'sftp_username' | 'node'>): Promise<void>;
  /** Removes the credentials and ends the live sessions, so that nobody has access any more. The files stay. Repeatable. */
  blockLogins(directory: Pick<HostedDirectory, 'sftp_username' | 'node'>): Promise<void>;
  /**
   * Removes the credentials, ends the live sessions and moves the jail out of reach before it resolves; then removes the
   * files in the background. Repeatable.
   * @param isNew whether no client knows the directory yet. Then a home that is away is not waited for.
   */
  remove(
    directory: Pick<HostedDirectory, 'id' | 'sftp_username' | 'uid' | 'node' | 'version'>,
    isNew?: boolean,
  ): Promise<void>;
  /** Syncs what was applied for these users, and every removal, so that no power cut can undo them. */
  makeDurable(usernames: readonly string[]): Promise<void>;
}

/**
 * Whether a name can be a username of berth. The admission hook accepts the same. Every name is checked here before it
 * becomes part of a path, so that none can name another folder.
 */
export function isUsername(name: string): boolean {
  return /^[a-z][a-z0-9-]{0,31}$/.test(name);
}

/** A node's directories, deleted ones too, whose latest change its disk may lack (`pending-apply.ts`). */
export function hostedPendingApply(
  reads: Kysely<Tables>,
  node: string,
): Promise<(HostedDirectory & Pick<DirectoryRow, 'deleted_at'>)[]> {
  return reads
    .selectFrom('directories')
    .select([...HOSTED, 'deleted_at'])
    .where('node', '=', node)
    .where('id', 'in', (from) => from.selectFrom('unapplied').select('directory_id'))
    .execute();
}

/** Undefined when the account has no such directory, or it is deleted. */
export function hostedById(reads: Kysely<Tables>, accountId: string, id: string): Promise<HostedDirectory | undefined> {
  return reads
    .selectFrom('directories')
    .select(HOSTED)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

/** The node's live directories after an id, in the order of their ids: for comparing them with its disk. */
export function hostedAfter(
  reads: Kysely<Tables>,
  node: string,
  after: string,
  limit: number,
): Promise<HostedDirectory[]> {
  return reads
    .selectFrom('directories')
    .select(HOSTED)
    .where('node', '=', node)
    .where('deleted_at', 'is', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}

// A directory's home is the node that has its jail and accepts its user's logins. Any node can change any directory
// in the database; only its home makes the disk follow.

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
