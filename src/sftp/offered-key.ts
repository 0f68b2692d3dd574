/** The key with which a user has logged in, as far as sshd lets anybody know (openssh/authorized-keys). */
import { closeSync, existsSync, fstatSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { openFile } from '../beneath.ts';
import type { Micros } from '../clock.ts';
import { errorCode } from '../errors.ts';
import type { Paths } from './paths.ts';

/** A process id and a fingerprint, in bytes. */
const LONGEST = 200;

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
  const noted = noteIn(offeredKeys, username);
  const [, monitor = '', fingerprint = ''] = /^(\d+) (SHA256:\S+)\n$/.exec(noted?.text ?? '') ?? [];
  if (!noted || fingerprint === '' || !existsSync(join(sessions, username, monitor))) return undefined;
  return { fingerprint, at: noted.at };
}

/**
 * Undefined when nobody has offered any, or the user has just gone; also for what is no small file. sshd's helper, which is
 * not root, writes there: it must not make us wait at a pipe, follow a link or read for long.
 */
function noteIn(folder: string, username: string): { readonly text: string; readonly at: Micros } | undefined {
  let fd: number | undefined;
  try {
    fd = openFile(folder, Buffer.from(username));
    const stats = fstatSync(fd);
    if (!stats.isFile() || stats.size > LONGEST) return undefined;
    const bytes = Buffer.alloc(LONGEST);
    const text = bytes.toString('utf8', 0, readSync(fd, bytes));
    return { text, at: Math.floor(stats.mtimeMs * 1000) };
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENXIO', 'EISDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
