/**
 * `berth migrate-to`: copies SQLite's file to PostgreSQL while `berth serve` is stopped. sshd continues.
 *
 * Wherever it is interrupted, one database is complete and in use, and the same command does what is left:
 *
 * 1. One transaction copies the rows. Until the settings name PostgreSQL, berth goes on with SQLite's file.
 * 2. The settings name PostgreSQL. From here on berth uses that.
 * 3. SQLite's file is renamed.
 */
import { existsSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Config, readConfig } from '../base/config.ts';
import { tryLock } from '../db/instance-lock.ts';
import { openDatabase } from '../db/open.ts';
import { isBlank, isPostgresUrl, shownPlace } from '../base/database-place.ts';
import { refuseUnfinished } from '../db/unfinished-restore.ts';
import { OperatorError } from '../base/errors.ts';
import { sync } from '../base/sync.ts';
import { keptSince } from './pending-restore.ts';
import { refuseUnwritable, writeSetting } from './settings-file.ts';

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
  const { copyToPostgres } = await import('../db/copy-to-postgres.ts');
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
