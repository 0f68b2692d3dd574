/**
 * A virtual user: two JSON user records that glibc reads through nss-systemd, found by the file's name
 * (nss-systemd(8), "JSON User Records" on systemd.io). A user exists once the second file is in place, so the private
 * part goes first.
 */
import { join } from 'node:path';
import type { HostedDirectory } from '../directories/host.ts';
import { isFile, removeFile, replaceFile } from './files.ts';
import type { Paths } from './paths.ts';

type User = Pick<HostedDirectory, 'sftp_username' | 'uid' | 'password_hash' | 'auth_mode'>;

interface UserFiles {
  /** Path, content and mode of each, in the order in which they have to appear. */
  readonly privileged: readonly [path: string, text: string, mode: number];
  readonly record: readonly [path: string, text: string, mode: number];
}

function userFiles(paths: Paths, user: User): UserFiles {
  const base = join(paths.userdb, user.sftp_username);
  const record = {
    userName: user.sftp_username,
    uid: user.uid,
    gid: user.uid,
    homeDirectory: paths.jail(user.sftp_username),
    shell: '/usr/sbin/nologin',
    // Without a disposition nss-systemd takes the range of the UID as none of its business and ignores the record.
    disposition: 'regular',
  };
  const hash = user.auth_mode === 'public_key' ? '*' : user.password_hash;
  return {
    privileged: [`${base}.user-privileged`, `${JSON.stringify({ privileged: { hashedPassword: [hash] } })}\n`, 0o600],
    record: [`${base}.user`, `${JSON.stringify(record)}\n`, 0o644],
  };
}

/** The user can log in with what the mode allows from the moment this returns. */
export function writeUserRecord(paths: Paths, user: User): void {
  const { privileged, record } = userFiles(paths, user);
  replaceFile(...privileged);
  replaceFile(...record);
}

export function isUserRecordRight(paths: Paths, user: User): boolean {
  const { privileged, record } = userFiles(paths, user);
  return isFile(...privileged) && isFile(...record);
}

/** The user is gone for every login that begins from now on. */
export function removeUserRecord(paths: Paths, username: string): boolean {
  const existed = removeFile(join(paths.userdb, `${username}.user`));
  return removeFile(join(paths.userdb, `${username}.user-privileged`)) || existed;
}

/** The username to which a file of the userdb folder belongs, or undefined for a file that is not berth's. */
export function userOfRecord(file: string): string | undefined {
  return /^(.+)\.user(?:-privileged)?(?:\.new)?$/.exec(file)?.[1];
}
