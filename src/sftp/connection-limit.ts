/**
 * max_connections, where `openssh/admit` reads it at every login. A user without this file is not let in at all, so it is
 * also the switch by which a DELETE stops logins that are half-way through.
 */
import { join } from 'node:path';
import type { HostedDirectory } from '../directories/host.ts';
import { isFile, removeFile, replaceFile } from './files.ts';
import type { Paths } from './paths.ts';

type User = Pick<HostedDirectory, 'sftp_username' | 'max_connections'>;

export function writeConnectionLimit(paths: Paths, user: User): void {
  replaceFile(join(paths.limits, user.sftp_username), `${user.max_connections}\n`, 0o600);
}

export function isConnectionLimitRight(paths: Paths, user: User): boolean {
  return isFile(join(paths.limits, user.sftp_username), `${user.max_connections}\n`, 0o600);
}

export function removeConnectionLimit(paths: Paths, username: string): boolean {
  return removeFile(join(paths.limits, username));
}
