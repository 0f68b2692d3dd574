/**
 * The one key with which a user may log in, where `openssh/authorized-keys` looks for it; no file when there is none.
 * Only root and the group of the user that sshd runs that script as can read it.
 */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import type { HostedDirectory } from '../directories/host.ts';
import { errorCode } from '../errors.ts';
import { isFile, removeFile, replaceFile } from './files.ts';
import type { Paths } from './paths.ts';
import { KEYS_ID } from './system-accounts.ts';

type User = Pick<HostedDirectory, 'sftp_username' | 'auth_mode' | 'public_key'>;

/** The key that the mode lets in. The rules store it as one line without options; a second line never gets out. */
function allowedKey(user: User): string | undefined {
  if (user.auth_mode === 'password' || user.public_key === null) return undefined;
  return user.public_key.split('\n', 1)[0];
}

export function writeAuthorizedKey(paths: Paths, user: User): void {
  const file = join(paths.authorizedKeys, user.sftp_username);
  const key = allowedKey(user);
  if (key === undefined) removeFile(file);
  else replaceFile(file, `${key}\n`, 0o640, KEYS_ID);
}

export function isAuthorizedKeyRight(paths: Paths, user: User): boolean {
  const file = join(paths.authorizedKeys, user.sftp_username);
  const key = allowedKey(user);
  return key === undefined ? isMissing(file) : isFile(file, `${key}\n`, 0o640, KEYS_ID);
}

export function removeAuthorizedKey(paths: Paths, username: string): boolean {
  return removeFile(join(paths.authorizedKeys, username));
}

function isMissing(file: string): boolean {
  try {
    lstatSync(file);
    return false;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return true;
    throw error;
  }
}
