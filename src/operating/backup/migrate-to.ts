/**
 * `berth migrate-to`: copies SQLite's file to PostgreSQL while `berth serve` is stopped. sshd continues.
 *
 * Wherever it is interrupted, one database is complete and in use, and the same command does what is left:
 *
 * 1. One transaction copies the rows. Until the settings name PostgreSQL, berth goes on with SQLite's file.
 * 2. The settings name PostgreSQL. From here on berth uses that.
 * 3. SQLite's file is renamed.
 */
import { chmodSync, chownSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Config, readConfig } from '../../foundation/base/config.ts';
import { tryLock } from '../../foundation/db/instance-lock.ts';
import { openDatabase } from '../../foundation/db/open.ts';
import { isBlank, isPostgresUrl, shownPlace } from '../../foundation/base/database-place.ts';
import { refuseUnfinished } from '../../foundation/db/unfinished-restore.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { sync } from '../../foundation/base/files.ts';
import { keptSince } from './pending-restore.ts';

export interface MigrateOptions {
  /** The destination, with the password. */
  readonly url: string;
  /** berth's configuration; `url` replaces its database. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The file that sets the environment. */
  readonly settings: string;
  progress(line: string): void;
  /** Ends the migration as long as nothing has changed. */
  readonly stop: AbortSignal;
}

export interface MovedDatabase {
  /** Without the password. */
  readonly database: string;
  readonly node: string;
  /** The number of rows by table; undefined when an earlier run has copied them. */
  readonly tables: Readonly<Record<string, number>> | undefined;
  /** Whether the settings file was there to be changed. */
  readonly isSet: boolean;
  /** The new name of SQLite's file; undefined when it had been renamed already. */
  readonly kept: string | undefined;
}

/** @throws {OperatorError} while berth serve runs, or when either database cannot be used. Then nothing has changed. */
export async function migrateTo(config: Config, options: MigrateOptions): Promise<MovedDatabase> {
  const { url, environment, settings, progress, stop } = options;
  if (!isPostgresUrl(url)) throw new OperatorError('the URL must be postgres://user:password@host/name');
  const { node } = readConfig({ ...environment, BERTH_DATABASE_URL: url });
  refuseUnwritable('BERTH_DATABASE_URL', url);
  using lock = tryLock(join(config.stateDir, 'serve.lock'));
  if (!lock) {
    throw new OperatorError(
      'berth serve runs: stop it first (systemctl stop berth); logins and uploads go on meanwhile',
    );
  }
  refuseUnfinished(config);
  const about = { database: shownPlace(url), node };
  if (isPostgresUrl(config.database)) {
    if (config.database !== url) {
      throw new OperatorError(`berth uses ${shownPlace(config.database)} already: move that with pg_dump and psql`);
    }
    return { ...about, tables: undefined, isSet: true, kept: keepBeside(config.databaseFile) };
  }
  const file = config.databaseFile;
  if (isBlank(file)) {
    throw new OperatorError(`there is no database ${file}: is BERTH_STATE_DIR the service's?`);
  }
  // Checks the file for damage, and brings its schema to the version of PostgreSQL's.
  await (await openDatabase(file, { check: true })).close();
  const { copyToPostgres } = await import('../../foundation/db/copy-to-postgres.ts');
  using copied = await copyToPostgres({ file, url, node, progress, stop });
  const isSet = writeSetting(settings, 'BERTH_DATABASE_URL', url);
  return { ...about, tables: copied.tables, isSet, kept: keepBeside(file) };
}

/** @returns the file's new name; undefined when there is no file. */
function keepBeside(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const kept = `${file}.${keptSince('migrated')}`;
  renameSync(file, kept);
  sync(dirname(file));
  return kept;
}

/**
 * Sets a variable: in its own line, after its commented default, or at the end. The file appears whole, with its owner and mode, but
 * without permissions for other users, since the value may be secret.
 * @returns false when there is no such file: the settings are elsewhere.
 */
function writeSetting(file: string, name: string, value: string): boolean {
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, 'utf8').replace(/\n$/, '').split('\n');
  const line = `${name}="${value}"`;
  const isSet = (each: string): boolean => each.trimStart().startsWith(`${name}=`);
  const kept = lines.map((each) => (isSet(each) && each !== line ? `#${each.trimStart()}` : each));
  if (!kept.includes(line)) {
    const last = kept.findLastIndex((each) => each.startsWith(`#${name}=`));
    kept.splice(last < 0 ? kept.length : last + 1, 0, line);
  }
  const { mode, uid, gid } = statSync(file);
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, `${kept.join('\n')}\n`, { mode: 0o600 });
  chownSync(fresh, uid, gid);
  chmodSync(fresh, mode & 0o770);
  sync(fresh);
  renameSync(fresh, file);
  sync(dirname(file));
  return true;
}

/** @throws {OperatorError} for a value that would change its meaning in such a file. */
function refuseUnwritable(name: string, value: string): void {
  if (!/[\s"'\\`]/.test(value)) return;
  throw new OperatorError(`${name} may hold no space, quote or backslash: write them as %20, %22, %27, %5C`);
}
