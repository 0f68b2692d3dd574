/**
 * sshd's host keys: made once, synced and kept, so that no client ever has to accept a new one. Making them anew is never
 * silent. An empty one, as a power cut leaves it, counts as missing: it would keep sshd from starting for good.
 */
import { execFile } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isBlank } from '../db/place.ts';
import { errorCode, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { sync } from '../sync.ts';
import { ensureFolder } from './files.ts';

const run = promisify(execFile);

export const KEY_TYPES = ['ed25519', 'ecdsa', 'rsa'] as const;

export type KeyType = (typeof KEY_TYPES)[number];

/**
 * Makes the missing ones of the three kinds, with OpenSSH's default sizes.
 * @returns the kinds that were missing.
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
    `host keys were missing or empty and were made anew: ${meaning}; berth restore FILE brings back the old`,
  );
}

export function keyFile(folder: string, type: KeyType): string {
  return join(folder, `ssh_host_${type}_key`);
}

/** Whether there is something in a file. */
export function isWhole(file: string): boolean {
  return !isBlank(file);
}

/** Makes a key pair: complete before it has its names, the public file first. */
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

/** Gives a key pair another name, in place of what had it: the public file first, each for good before the next. */
export function moveKey(from: string, to: string): void {
  for (const end of ['.pub', '']) {
    // Missing when an earlier move was interrupted after it.
    if (end === '' || isWhole(from + end)) renameSync(from + end, to + end);
    sync(join(to, '..'));
  }
}
