/**
 * New host keys that no client has to accept by hand. For some weeks sshd presents each beside the one in use, which goes on
 * proving who the server is; OpenSSH clients write the new one into their known_hosts at a login (`UpdateHostKeys`; OpenSSH's
 * PROTOCOL, "hostkeys-00@openssh.com"). Then it takes the old one's place.
 *
 * The files are the state: a pair `ssh_host_next_<type>_key` with its `.pub` is presented. Half a pair is what an interrupted
 * step left; `mend` goes back or on from there.
 */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DAY, type Micros } from '../clock.ts';
import { tryLock } from '../db/instance-lock.ts';
import { OperatorError } from '../errors.ts';
import { sync } from '../sync.ts';
import { isWhole, KEY_TYPES, keyFile, type KeyType, makeKey, moveKey } from './host-keys.ts';

const run = promisify(execFile);

/** How long the new keys should be offered: whoever logs in once a month has seen them then. */
export const OFFERED_FOR = 30 * DAY;

export interface NextKey {
  readonly type: KeyType;
  /** When it was made, and sshd told of it. */
  readonly since: Micros;
}

/** The private files of all keys that sshd has to present, those in use first: of two of a type it proves with the first. */
export function hostKeyFiles(folder: string): string[] {
  const next = nextKeys(folder).map(({ type }) => nextFile(folder, type));
  return [...KEY_TYPES.map((type) => keyFile(folder, type)), ...next];
}

/** The keys that are to follow. */
export function nextKeys(folder: string): NextKey[] {
  return KEY_TYPES.flatMap((type) => {
    const file = nextFile(folder, type);
    if (!isWhole(file) || !isWhole(`${file}.pub`)) return [];
    return [{ type, since: Math.floor(statSync(`${file}.pub`).mtimeMs * 1000) }];
  });
}

/**
 * Nobody else begins, finishes or mends a rotation until it is disposed of.
 * @throws {OperatorError} when another process does.
 */
export function lockRotation(folder: string): Disposable {
  const lock = tryLock(lockFile(folder));
  if (lock) return lock;
  throw new OperatorError('another berth host-key works on the host keys: wait for it');
}

/** Ends what an interrupted step left, unless one is under way. */
export async function mendRotation(folder: string): Promise<void> {
  using lock = tryLock(lockFile(folder));
  if (lock) await mend(folder);
}

/** Makes the next key of these types, unless there is one already. The lock must be held here and below. */
export async function beginRotation(folder: string, types: readonly KeyType[]): Promise<void> {
  await mend(folder);
  const begun = new Set(nextKeys(folder).map(({ type }) => type));
  for (const type of types) if (!begun.has(type)) await makeKey(type, nextFile(folder, type));
}

/** The next keys take the place of the old ones, which are gone for good. */
export async function finishRotation(folder: string): Promise<void> {
  await mend(folder);
  for (const { type } of nextKeys(folder)) moveKey(nextFile(folder, type), keyFile(folder, type));
}

/** The next keys go, the old ones stay: OpenSSH clients forget them at their next login. */
export async function cancelRotation(folder: string): Promise<void> {
  await mend(folder);
  for (const { type } of nextKeys(folder)) remove(folder, type);
}

/** A public file alone was never presented. A private one alone is on its way, if the other half has arrived already. */
async function mend(folder: string): Promise<void> {
  for (const type of KEY_TYPES) {
    const file = nextFile(folder, type);
    const [hasKey, hasPublic] = [isWhole(file), isWhole(`${file}.pub`)];
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

/** The private file first: what is left then counts as never presented. */
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
