/**
 * Checks a database before it is used. A damaged or missing one ends the start with a line that says so. It is never
 * replaced by a fresh one, with which every SFTP user would lose their credentials and every caller their key.
 */
import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import { errorCode, OperatorError } from '../errors.ts';
import { isBlank, isPostgresUrl, shownPlace } from './place.ts';
import type { Tables } from './schema.ts';

/** Larger files are not read through at a start: 256 MiB take about 0.7 s. */
const CHECKED_BYTES = 256 * 1024 * 1024;

/** The first four bytes of a write-ahead log, but for the last bit (https://sqlite.org/fileformat2.html, 4.1). */
const WAL_MAGIC = 0x37_7f_06_82;

/**
 * Whether the file may be made where there is none.
 * @throws {OperatorError} when SFTP users of an earlier database are there: it was moved, removed or emptied.
 */
export function refuseMissing({ database, stateDir }: Pick<Config, 'database' | 'stateDir'>): void {
  if (isPostgresUrl(database)) return;
  if (!isBlank(database)) return;
  const users = join(stateDir, 'userdb');
  if (!hasUsers(users)) return;
  throw new OperatorError(
    `the database ${database} is missing or empty, but ${users} holds SFTP users, who can still log in: put the database back or restore a backup; to begin anew, move ${users} away`,
  );
}

/**
 * Whether a PostgreSQL is the one of this machine.
 * @throws {OperatorError} when it knows nothing of the SFTP users who are here: with it, they would lose their credentials.
 */
export async function refuseForeign(
  reads: Kysely<Tables>,
  { database, node, stateDir }: Pick<Config, 'database' | 'node' | 'stateDir'>,
): Promise<void> {
  const users = join(stateDir, 'userdb');
  if (!isPostgresUrl(database) || !hasUsers(users)) return;
  const known = await reads.selectFrom('directories').select('id').where('node', '=', node).limit(1).executeTakeFirst();
  if (known !== undefined) return;
  throw new OperatorError(
    `the database ${shownPlace(database)} has no directory of the node ${node}, but ${users} holds SFTP users, who can still log in: mend BERTH_DATABASE_URL or BERTH_NODE, or restore the database; to begin anew, move ${users} away`,
  );
}

function hasUsers(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).some((name) => name.endsWith('.user'));
}

/**
 * SQLite takes a log with a damaged head for none at all, and what was committed last would be gone without a word.
 * @throws {OperatorError} when `<file>-wal` is no write-ahead log.
 */
export function refuseDamagedLog(file: string): void {
  const log = `${file}-wal`;
  const head = Buffer.alloc(4);
  try {
    const fd = openSync(log, 'r');
    try {
      if (readSync(fd, head) === 0) return;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  if ((head.readUInt32BE() & ~1) >>> 0 === WAL_MAGIC) return;
  throw new OperatorError(
    `${log}, with the latest changes, is damaged: restore it or a backup; to go on without those changes, move it away`,
  );
}

/**
 * Reads through a database that is not too large for that.
 * @throws {OperatorError} naming the first thing that is wrong.
 */
export function refuseDamaged(sqlite: Sqlite.Database, file: string): void {
  if (statSync(file).size > CHECKED_BYTES) return;
  const found = firstDamage(sqlite);
  if (found !== undefined) throw damaged(file, found);
}

/** What SQLite finds wrong first in all of the database, if anything. */
export function firstDamage(sqlite: Sqlite.Database): string | undefined {
  const found: unknown = sqlite.pragma('quick_check(1)', { simple: true });
  return found === 'ok' ? undefined : String(found);
}

/** What to say of a database that SQLite cannot read. */
export function damaged(file: string, reason: string, options?: ErrorOptions): OperatorError {
  const line = reason.replaceAll(/\s+/g, ' ');
  return new OperatorError(
    `the database ${file} is damaged (${line}): stop berth, keep a copy of it, and restore a backup; sshd goes on meanwhile`,
    options,
  );
}
