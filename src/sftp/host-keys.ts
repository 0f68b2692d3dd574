/** sshd's host keys: made once and kept, so that no client ever has to accept a new one. */
import { execFile } from 'node:child_process';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, OperatorError } from '../errors.ts';
import { ensureFolder } from './files.ts';

const run = promisify(execFile);

const TYPES = ['ed25519', 'ecdsa', 'rsa'] as const;

/**
 * Makes the missing ones of the three kinds, with OpenSSH's default sizes.
 * @throws {OperatorError} when ssh-keygen is missing.
 */
export async function ensureHostKeys(folder: string): Promise<void> {
  ensureFolder(folder, 0o700);
  await Promise.all(TYPES.map((type) => ensureKey(folder, type)));
}

async function ensureKey(folder: string, type: string): Promise<void> {
  const key = join(folder, `ssh_host_${type}_key`);
  if (existsSync(key)) return;
  // Complete before it has its name: a key that was cut off half-way would keep sshd from starting.
  const fresh = join(folder, `new_${type}_key`);
  for (const file of [fresh, `${fresh}.pub`]) rmSync(file, { force: true });
  try {
    await run('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', 'berth', '-f', fresh]);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    throw new OperatorError('ssh-keygen is missing: install the Debian package openssh-server', { cause: error });
  }
  renameSync(`${fresh}.pub`, `${key}.pub`);
  renameSync(fresh, key);
}
