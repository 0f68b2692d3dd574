/**
 * The interface between the rules and the machine that serves a directory over SFTP. `sftp/` implements the host for
 * this machine; nothing else in `directories/` knows that there is a disk or an sshd.
 */
import type { Kysely } from 'kysely';
import type { DirectoriesTable, Tables } from '../db/schema.ts';

/** The columns from which a directory's jail, credentials and limits follow. */
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
] as const satisfies readonly (keyof DirectoriesTable)[];

export type HostedDirectory = Pick<DirectoriesTable, (typeof HOSTED)[number]>;

export interface DirectoryHost {
  /**
   * Makes the jail, the credentials and the limits agree with the row, whatever was there: live when it returns. Of a
   * suspended directory it ends the sessions.
   * Repeatable. Throws the system's error (`ENOSPC`, …) when the disk refuses, and `home_unavailable`, as all of these do,
   * when the directory is at home on a node that does not answer.
   * @param isNew whether it could still go to another node: then one that is away is not waited for.
   */
  apply(directory: HostedDirectory, isNew?: boolean): Promise<void>;
  /** Why no quota can be set where the directory is at home, as a message for the caller; undefined when one can. */
  quotaObstacle(directory: Pick<HostedDirectory, 'node'>): Promise<string | undefined>;
  /** Whether `apply` would change nothing. Reads only. */
  isApplied(directory: HostedDirectory): boolean;
  /** Ends the live sessions of a user whom the limit lets in no more. Repeatable. */
  endSessions(directory: Pick<HostedDirectory, 'sftp_username' | 'node'>): Promise<void>;
  /** Takes the credentials away and ends the live sessions: nobody is in there any more. The files stay. Repeatable. */
  shutOut(directory: Pick<HostedDirectory, 'sftp_username' | 'node'>): Promise<void>;
  /**
   * Takes the credentials away, ends the live sessions and puts the jail out of reach; all of it has happened when it
   * returns, but for the removal of the files themselves, which goes on in the background. Repeatable.
   * @param isNew whether no client knows the directory yet: then nobody waits for a node that is away.
   */
  remove(
    directory: Pick<HostedDirectory, 'id' | 'sftp_username' | 'uid' | 'node' | 'version'>,
    isNew?: boolean,
  ): Promise<void>;
  /** Resolves when no power cut can undo what was applied to these users, and what was removed of any. */
  makeDurable(usernames: readonly string[]): Promise<void>;
}

/**
 * Whether a name can be a username of berth: what the admission hook accepts. Every name that ends up
 * in a path passes here, so none can name another folder.
 */
export function isUsername(name: string): boolean {
  return /^[a-z][a-z0-9-]{0,31}$/.test(name);
}

/** The directories at home on a node that its disk may be behind of (`unapplied.ts`), deleted ones among them. */
export function hostedUnapplied(
  reads: Kysely<Tables>,
  node: string,
): Promise<(HostedDirectory & Pick<DirectoriesTable, 'deleted_at'>)[]> {
  return reads
    .selectFrom('directories')
    .select([...HOSTED, 'deleted_at'])
    .where('node', '=', node)
    .where('id', 'in', (from) => from.selectFrom('unapplied').select('directory_id'))
    .execute();
}

/** A live directory of that account. */
export function hostedById(reads: Kysely<Tables>, accountId: string, id: string): Promise<HostedDirectory | undefined> {
  return reads
    .selectFrom('directories')
    .select(HOSTED)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

/** A node's live directories in the order of their ids, after one: for it to compare with what it has. */
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
