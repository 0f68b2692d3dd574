/**
 * The files that let a user log in: four small files that sshd reads at every login, even while berth is down. A user
 * exists once the last file is in place. The limit is removed first, so that a DELETE also stops logins in progress
 * (openssh/admit).
 */
import { opendir } from 'node:fs/promises';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import type { HostedDirectory } from '../../rules/directories/host.ts';
import { isFile, removeFile, replaceFile } from './files.ts';
import { limitFile } from './limit-file.ts';
import { KEYS_ID, type Paths } from './paths.ts';

type User = Omit<HostedDirectory, 'id'>;

interface CredentialFile {
  readonly path: string;
  /** Undefined when there must be no file. */
  readonly text: string | undefined;
  readonly mode: number;
  readonly gid?: number;
}

/** The files in the order in which they are written. `pathsOfUser` has the order of removal. */
function filesOf(paths: Paths, user: User): CredentialFile[] {
  const path = pathsOfUser(paths, user.sftp_username);
  return [
    { path: path.limit, text: limitFile(user), mode: 0o600 },
    { path: path.key, text: allowedKeys(user), mode: 0o640, gid: KEYS_ID },
    { path: path.privileged, text: `${JSON.stringify(privilegedRecord(user))}\n`, mode: 0o600 },
    { path: path.record, text: `${JSON.stringify(userRecord(paths, user))}\n`, mode: 0o644 },
  ];
}

function pathsOfUser(paths: Paths, username: string) {
  return {
    limit: join(paths.limits, username),
    record: join(paths.userdb, `${username}.user`),
    privileged: join(paths.userdb, `${username}.user-privileged`),
    key: join(paths.authorizedKeys, username),
  };
}

/** A key as the rules store it: type and base64. Options and comments are never written. */
const KEY = /^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}$/;

/** The keys that may log in under the directory's mode, one per line. */
function allowedKeys(user: User): string | undefined {
  if (user.auth_mode === 'password') return undefined;
  const lines = user.public_key?.split('\n').filter((line) => KEY.test(line)) ?? [];
  return lines.length > 0 ? lines.map((line) => `${line}\n`).join('') : undefined;
}

/** JSON User Records (systemd.io), which glibc reads through nss-systemd(8) by the file's name. */
function userRecord(paths: Paths, user: User): object {
  return {
    userName: user.sftp_username,
    uid: user.uid,
    gid: user.uid,
    homeDirectory: paths.jail(user.sftp_username),
    shell: '/usr/sbin/nologin',
    // Without a disposition, nss-systemd ignores a record with a UID of this range.
    disposition: 'regular',
  };
}

function privilegedRecord(user: User): object {
  return { privileged: { hashedPassword: [user.auth_mode === 'public_key' ? '*' : user.password_hash] } };
}

/** Writes the user's credentials. Once this returns, the user can log in with the methods that the mode allows. */
export function writeCredentials(paths: Paths, user: User): void {
  for (const { path, text, mode, gid } of filesOf(paths, user)) {
    if (text === undefined) removeFile(path);
    else replaceFile(path, text, mode, gid);
  }
}

/** Whether `writeCredentials` would change nothing. */
export function areCredentialsRight(paths: Paths, user: User): boolean {
  return filesOf(paths, user).every(({ path, text, mode, gid }) =>
    text === undefined ? !lstatSync(path, { throwIfNoEntry: false }) : isFile(path, text, mode, gid),
  );
}

/** Removes the user's credentials, so that no further login succeeds. Returns whether there were any. */
export function removeCredentials(paths: Paths, username: string): boolean {
  return credentialFiles(paths, username).map(removeFile).includes(true);
}

/** The paths of all credential files that a user may have. */
export function credentialFiles(paths: Paths, username: string): string[] {
  return Object.values(pathsOfUser(paths, username));
}

/** Every username that has a credential file, or a temporary one that a crash left. */
export async function usersWithCredentials(paths: Paths): Promise<Set<string>> {
  const users = new Set<string>();
  for await (const { name } of await opendir(paths.userdb)) {
    const username = userOfRecord(name);
    if (username !== undefined) users.add(username);
  }
  for (const folder of [paths.authorizedKeys, paths.limits])
    for await (const { name } of await opendir(folder)) users.add(name.replace(/\.new$/, ''));
  return users;
}

/** The username to which a file of the userdb folder belongs, or undefined for a file that is not berth's. */
export function userOfRecord(file: string): string | undefined {
  return /^(.+)\.user(?:-privileged)?(?:\.new)?$/.exec(file)?.[1];
}
