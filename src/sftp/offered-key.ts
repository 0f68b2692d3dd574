/** The key with which a user has logged in, as far as sshd lets anybody know (openssh/authorized-keys). */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Micros } from '../clock.ts';
import { errorCode } from '../errors.ts';
import type { Paths } from './paths.ts';

export interface OfferedKey {
  /** `SHA256:` and base64. */
  readonly fingerprint: string;
  readonly at: Micros;
}

/**
 * The key that was offered last by a connection that was let in. In the mode `both` that connection may have logged in
 * by password after all.
 */
export function offeredKey(
  { offeredKeys, sessions }: Pick<Paths, 'offeredKeys' | 'sessions'>,
  username: string,
): OfferedKey | undefined {
  const file = join(offeredKeys, username);
  try {
    const [, monitor = '', fingerprint = ''] = /^(\d+) (SHA256:\S+)\n$/.exec(readFileSync(file, 'utf8')) ?? [];
    if (fingerprint === '' || !existsSync(join(sessions, username, monitor))) return undefined;
    return { fingerprint, at: Math.floor(statSync(file).mtimeMs * 1000) };
  } catch (error) {
    // Nobody has offered any, or the user has just gone.
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
