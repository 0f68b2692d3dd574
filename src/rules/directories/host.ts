/**
 * The interface between the rules and the machine that serves a directory over SFTP. `sftp/` implements the host for
 * this machine; nothing else in `directories/` knows that there is a disk or an sshd.
 */
import type { Kysely } from 'kysely';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';

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
