/**
 * sshd's host keys: made once, synced and kept, so that clients never have to accept new ones. Replacing a key is
 * always logged. An empty file, which a power cut can leave, counts as missing, because sshd would not start with it.
 */
import { execFile } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isBlank } from '../../foundation/base/database-place.ts';
import { errorCode, OperatorError } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { sync } from '../../foundation/base/files.ts';
import { ensureFolder } from './files.ts';

const run = promisify(execFile);

export const KEY_TYPES = ['ed25519', 'ecdsa', 'rsa'] as const;

export type KeyType = (typeof KEY_TYPES)[number];

/**
 * Makes the missing keys of the three types, with OpenSSH's default sizes.
 * @returns the types that were missing.
 * @throws {OperatorError} when ssh-keygen is missing.
 */
export async function ensureHostKeys(folder: string): Promise<string[]> {
  ensureFolder(folder, 0o700);
  const missing = KEY_TYPES.filter((type) => !isWhole(keyFile(folder, type)));
  await Promise.all(missing.map((type) => makeKey(type, keyFile(folder, type))));
  return missing;
}

/** @param isFirst whether no client can know any key yet. */
export function logHostKeys(log: Log, made: readonly string[], isFirst: boolean): void {
  if (made.length === 0) return;
  if (isFirst) return log.info({ host_keys: made }, "sshd's host keys were made");
  const meaning = 'clients that know the old ones refuse to connect until they accept these';
  log.warn(
    { host_keys: made },
    `host keys were missing or empty and were made again: ${meaning}; berth restore FILE restores the old`,
  );
}

export function keyFile(folder: string, type: KeyType): string {
  return join(folder, `ssh_host_${type}_key`);
}

/** Whether a file exists and is not empty. */
export function isWhole(file: string): boolean {
  return !isBlank(file);
}

/** Makes a key pair. Both files are complete before they get their names, the public file first. */
export async function makeKey(type: KeyType, file: string): Promise<void> {
  const folder = join(file, '..');
  const fresh = join(folder, `new_${type}_key`);
  for (const name of [fresh, `${fresh}.pub`]) rmSync(name, { force: true });
  try {
    await run('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', 'berth', '-f', fresh]);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    throw new OperatorError('ssh-keygen is missing: install the Debian package openssh-server', { cause: error });
  }
  for (const name of [fresh, `${fresh}.pub`]) sync(name);
  moveKey(fresh, file);
}

/** Renames a key pair, replacing any other. The public file comes first, and each rename is synced before the next. */
export function moveKey(from: string, to: string): void {
  for (const end of ['.pub', '']) {
    // The public file is missing if an earlier move was interrupted after renaming it.
    if (end === '' || isWhole(from + end)) renameSync(from + end, to + end);
    sync(join(to, '..'));
  }
}
