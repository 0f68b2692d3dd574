/**
 * What the rules need of the machine that serves a directory over SFTP. `sftp/` implements it for this machine;
 * nothing else in `directories/` knows that there is a disk or an sshd.
 */
import type { DirectoriesTable } from '../db/schema.ts';

/** The columns from which a directory's jail, credentials and limit follow. */
export type HostedDirectory = Pick<
  DirectoriesTable,
  'id' | 'sftp_username' | 'uid' | 'password_hash' | 'auth_mode' | 'public_key' | 'max_connections'
>;

export interface DirectoryHost {
  /**
   * Makes the jail, the credentials and the limit agree with the row, whatever was there: live when it returns.
   * Repeatable. Throws the system's error (`ENOSPC`, …) when the disk refuses.
   */
  apply(directory: HostedDirectory): Promise<void>;
  /**
   * Takes the credentials away, ends the live sessions and puts the jail out of reach; all of it has happened when it
   * returns, but for the removal of the files themselves, which goes on in the background. Repeatable.
   */
  remove(directory: Pick<HostedDirectory, 'id' | 'sftp_username' | 'uid'>): Promise<void>;
}
