/**
 * Rotates host keys without a client having to accept the new ones by hand. For some weeks sshd presents each new key
 * beside the one in use, which continues to prove the server's identity. OpenSSH clients add the new key to their
 * known_hosts at a login (`UpdateHostKeys`; OpenSSH's PROTOCOL, "hostkeys-00@openssh.com"). Then the new key replaces
 * the old one.
 *
 * The files are the state: a pair `ssh_host_next_<type>_key` with its `.pub` is presented. An interrupted step leaves
 * half a pair, and `repair` either undoes or completes that step.
 */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import { tryLock } from '../../foundation/db/instance-lock.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { sync } from '../../foundation/base/files.ts';
import { isWhole, KEY_TYPES, keyFile, type KeyType, makeKey, moveKey } from './host-keys.ts';

const run = promisify(execFile);

/** How long new keys should be presented. A client that logs in once a month has seen them by then. */
export const OFFERED_FOR = 30 * DAY;

export interface NextKey {
  readonly type: KeyType;
  /** When the key was made and sshd reloaded. */
  readonly since: Micros;
}

/**
 * The private files of all keys that sshd has to present, those in use first: of two keys with the same type, sshd
 * proves its identity with the first.
 */
export function hostKeyFiles(folder: string): string[] {
  const next = nextKeys(folder).map(({ type }) => nextFile(folder, type));
  return [...KEY_TYPES.map((type) => keyFile(folder, type)), ...next];
}

/** The keys that will replace those in use. */
export function nextKeys(folder: string): NextKey[] {
  return KEY_TYPES.flatMap((type) => {
    const file = nextFile(folder, type);
    if (!isWhole(file) || !isWhole(`${file}.pub`)) return [];
    return [{ type, since: Math.floor(statSync(`${file}.pub`).mtimeMs * 1000) }];
  });
}

/**
 * Locks the rotation: no other process can begin, finish or repair one until the lock is disposed of.
 * @throws {OperatorError} when another process has the lock.
 */
export function lockRotation(folder: string): Disposable {
  const lock = tryLock(lockFile(folder));
  if (lock) return lock;
  throw new OperatorError('another berth host-key works on the host keys: wait for it');
}

/** Repairs an interrupted step, unless another process is working on one. */
export async function repairRotation(folder: string): Promise<void> {
  using lock = tryLock(lockFile(folder));
  if (lock) await repair(folder);
}

/** Makes the next key of each type that has none. The caller must hold the lock, as for the functions below. */
export async function beginRotation(folder: string, types: readonly KeyType[]): Promise<void> {
  await repair(folder);
  const begun = new Set(nextKeys(folder).map(({ type }) => type));
  for (const type of types) if (!begun.has(type)) await makeKey(type, nextFile(folder, type));
}

/** Replaces the keys in use with the next ones. The old ones are lost for good. */
export async function finishRotation(folder: string): Promise<void> {
  await repair(folder);
  for (const { type } of nextKeys(folder)) moveKey(nextFile(folder, type), keyFile(folder, type));
}

/** Removes the next keys and keeps those in use. OpenSSH clients forget the removed ones at their next login. */
export async function cancelRotation(folder: string): Promise<void> {
  await repair(folder);
  for (const { type } of nextKeys(folder)) remove(folder, type);
}

/**
 * Repairs half pairs. A public file alone was never presented. A private file alone was being moved if its public file
 * already has the other name; otherwise it was being removed.
 */
async function repair(folder: string): Promise<void> {
  for (const type of KEY_TYPES) {
    const file = nextFile(folder, type);
    const hasKey = isWhole(file);
    const hasPublic = isWhole(`${file}.pub`);
    if (hasKey && !hasPublic && (await belongTogether(file, `${keyFile(folder, type)}.pub`)))
      moveKey(file, keyFile(folder, type));
    else if (!hasKey || !hasPublic) remove(folder, type);
  }
}

async function belongTogether(key: string, publicFile: string): Promise<boolean> {
  const { stdout } = await run('ssh-keygen', ['-y', '-f', key]);
  const [type, base64] = stdout.trim().split(' ');
  return isWhole(publicFile) && readFileSync(publicFile, 'utf8').startsWith(`${type} ${base64}`);
}

/** Removes the private file first: a public file alone counts as never presented. */
function remove(folder: string, type: KeyType): void {
  for (const file of [nextFile(folder, type), `${nextFile(folder, type)}.pub`]) {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) continue;
    rmSync(file);
    sync(folder);
  }
}

function nextFile(folder: string, type: KeyType): string {
  return join(folder, `ssh_host_next_${type}_key`);
}

function lockFile(folder: string): string {
  return `${folder}.lock`; // beside the folder, which holds keys only
}
