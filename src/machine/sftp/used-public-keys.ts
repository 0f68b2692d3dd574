/** Notes when each public key was last used: from the sessions that the history reports, and the keys that sshd was offered for them. */
import { createLastUsed } from '../../rules/api-keys/last-used.ts';
import { USED_PUBLIC_KEYS } from '../../rules/directories/public-keys.ts';
import type { Transfer } from '../../rules/history/transfers.ts';
import type { Paths } from './paths.ts';
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Micros } from '../../foundation/base/clock.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import type { Ground } from '../../foundation/context.ts';

export interface UsedPublicKeys {
  /** Takes the rows that a commit has added to the history. */
  committed(rows: readonly Transfer[]): void;
  /** Writes what is noted. */
  close(): Promise<void>;
}

export function startUsedPublicKeys(ground: Ground, paths: Paths): UsedPublicKeys {
  const lastUsed = createLastUsed({ ...ground, of: USED_PUBLIC_KEYS });
  return {
    committed(rows) {
      for (const { event, directory_id: id, username } of rows) {
        if (event !== 'session-opened') continue;
        for (const { fingerprint, at } of offeredKeys(paths, username)) lastUsed.note(`${id} ${fingerprint}`, at);
      }
    },
    close: lastUsed.close,
  };
}

interface OfferedKey {
  /** `SHA256:` and base64. */
  readonly fingerprint: string;
  /** When the login was admitted. */
  readonly at: Micros;
}

/** The size in bytes at which openssh/authorized-keys starts the file again. */
const MAX_FILE_BYTES = 16_384;
const LINE = /^(\d+) (\d+) (SHA256:\S+)$/;

/**
 * The key that each recently admitted connection offered last, the latest login last. In the mode `both` such a
 * connection may have logged in by password after all.
 */
export function offeredKeys(paths: Pick<Paths, 'offeredKeys' | 'sessions'>, username: string): OfferedKey[] {
  const byConnection = new Map<string, string>();
  for (const line of readOffered(join(paths.offeredKeys, username)).split('\n')) {
    const [, monitor = '', startTime = '', fingerprint = ''] = LINE.exec(line) ?? [];
    if (fingerprint !== '') byConnection.set(`${monitor} ${startTime}`, fingerprint);
  }
  const keys: OfferedKey[] = [];
  for (const [connection, fingerprint] of byConnection) {
    const at = letInAt(join(paths.sessions, username), connection);
    if (at !== undefined) keys.push({ fingerprint, at });
  }
  return keys.toSorted((a, b) => a.at - b.at);
}

/**
 * Reads a file of offered keys. The folder belongs to the user `berth-keys`, who may have put anything there, so this
 * waits for nothing and follows no link.
 */
function readOffered(file: string): string {
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stats = fstatSync(fd);
    if (!stats.isFile() || stats.size > MAX_FILE_BYTES) return '';
    const buffer = Buffer.alloc(MAX_FILE_BYTES);
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, MAX_FILE_BYTES, 0));
  } catch (error) {
    // No key was offered, or the user has just been deleted.
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return '';
    throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** When openssh/admit admitted the connection. Undefined if it did not, or its file has been removed since. */
function letInAt(sessions: string, connection: string): Micros | undefined {
  const [monitor = '', startTime] = connection.split(' ');
  const file = join(sessions, monitor);
  try {
    if (readFileSync(file, 'utf8').split(' ', 1)[0] !== startTime) return undefined;
    return Math.floor(statSync(file).mtimeMs * 1000);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
