/**
 * Checks a database before it is used. If it is damaged or missing, the start fails with a line that says so. A new
 * database never replaces it: with that, every SFTP user would lose their credentials and every caller their key.
 */
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { Config } from '../base/config.ts';
import { errorCode, OperatorError } from '../base/errors.ts';
import { isThere } from '../base/files.ts';
import { isBlank, isPostgresUrl, shownPlace } from '../base/database-place.ts';
import type { Tables } from './schema.ts';

/** Larger files are not read completely at a start: 256 MiB take about 0.7 s. */
const CHECKED_BYTES = 256 * 1024 * 1024;

/** The first four bytes of a write-ahead log, but for the last bit (https://sqlite.org/fileformat2.html, 4.1). */
const WAL_MAGIC = 0x37_7f_06_82;

/**
 * Checks that a missing database file may be created.
 * @throws {OperatorError} when SFTP users of an earlier database exist: the file was moved, removed or emptied.
 */
export function refuseMissing({ database, stateDir }: Pick<Config, 'database' | 'stateDir'>): void {
  if (isPostgresUrl(database)) return;
  if (!isBlank(database)) return;
  const users = join(stateDir, 'userdb');
  if (!hasUsers(users)) return;
  throw new OperatorError(
    `the database ${database} is missing or empty, but ${users} holds SFTP users, who can still log in: restore the database or a backup; to start with an empty database, move ${users} away`,
  );
}

/**
 * Checks that a PostgreSQL database is the one of this machine.
 * @throws {OperatorError} when it has no directory of this node, although SFTP users exist here: they would lose their
 * credentials.
 */
export async function refuseOtherInstallation(
  reads: Kysely<Tables>,
  { database, node, stateDir }: Pick<Config, 'database' | 'node' | 'stateDir'>,
): Promise<void> {
  const users = join(stateDir, 'userdb');
  if (!isPostgresUrl(database) || !hasUsers(users)) return;
  const known = await reads.selectFrom('directories').select('id').where('node', '=', node).limit(1).executeTakeFirst();
  if (known !== undefined) return;
  throw new OperatorError(
    `the database ${shownPlace(database)} has no directory of the node ${node}, but ${users} holds SFTP users, who can still log in: repair BERTH_DATABASE_URL or BERTH_NODE, or restore the database; to start with an empty one, move ${users} away`,
  );
}

function hasUsers(folder: string): boolean {
  return isThere(folder) && readdirSync(folder).some((name) => name.endsWith('.user'));
}

/**
 * Checks the head of the write-ahead log. SQLite ignores a log with a damaged head, and the latest commits would be
 * lost silently.
 * @throws {OperatorError} when `<file>-wal` is not a write-ahead log.
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
 * Reads the whole database, unless it is too large for that.
 * @throws {OperatorError} naming the first thing that is wrong.
 */
export function refuseDamaged(sqlite: Sqlite.Database, file: string): void {
  if (statSync(file).size > CHECKED_BYTES) return;
  const found = firstDamage(sqlite);
  if (found !== undefined) throw damaged(file, found);
}

/** The first problem that SQLite finds in the whole database; undefined for none. */
export function firstDamage(sqlite: Sqlite.Database): string | undefined {
  const found: unknown = sqlite.pragma('quick_check(1)', { simple: true });
  return found === 'ok' ? undefined : String(found);
}

/** The error for a database that SQLite cannot read. */
export function damaged(file: string, reason: string, options?: ErrorOptions): OperatorError {
  const line = reason.replaceAll(/\s+/g, ' ');
  return new OperatorError(
    `the database ${file} is damaged (${line}): stop berth, keep a copy of it, and restore a backup; sshd goes on meanwhile`,
    options,
  );
}
