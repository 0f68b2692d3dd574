/**
 * `berth restore`: puts a backup in place while the service is stopped. A PostgreSQL database has to be there already, and to match.
 *
 * The whole archive is checked, and its database migrated, before anything on the machine is touched. An interrupted restore leaves
 * the old state or the new one, whole (`pending-restore.ts`). The customers' files are not touched.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../../foundation/base/config.ts';
import { inspect } from '../../foundation/db/inspect.ts';
import { type Database, openDatabase } from '../../foundation/db/open.ts';
import { isBlank, isPostgresUrl } from '../../foundation/base/database-place.ts';
import { isUnfinished } from '../../foundation/db/unfinished-restore.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { pathsOf } from '../../machine/sftp/paths.ts';
import { type OnPostgres, PARTS, unpack } from './archive.ts';
import { putSettings, type SettingsPlan } from './settings.ts';
import { applyRestore, commitRestore, lockState, waitingDatabase } from './pending-restore.ts';
import { type Micros, systemClock } from '../../foundation/base/clock.ts';
import { forgottenInode } from '../../foundation/db/forgotten-inodes.ts';
import { skipUids } from '../../foundation/db/shared.ts';
import { FIRST_UID } from '../../rules/directories/create.ts';
import { skipNumbers } from '../../rules/history/events.ts';
import { randomText } from '../../foundation/base/hashes.ts';

export interface RestoreOptions {
  /** The archive. */
  readonly file: string;
  readonly settings: SettingsPlan;
  /** Restores even if there is data, which is kept beside. */
  readonly force: boolean;
  /** Ends the restore while nothing on the machine has changed yet; after that it runs to its end. */
  readonly stop: AbortSignal;
}

export interface Restored extends RestoredRows {
  readonly madeAt: string;
  /** Live directories that have no jail here yet. */
  readonly withoutJail: readonly string[];
  /** The new paths of all files that were replaced. */
  readonly kept: readonly string[];
  /** Where the backup's settings were put; undefined when this machine's say the same. */
  readonly settings: string | undefined;
}

/** @throws {OperatorError} while berth serve runs, when there is data and no `force`, or when the backup cannot be used. */
export async function restore(config: Config, { file, settings, force, stop }: RestoreOptions): Promise<Restored> {
  const archive = resolve(file);
  if (!existsSync(archive)) throw new OperatorError(`there is no backup ${archive}`);
  for (const path of [config.stateDir, dirname(config.databaseFile)]) mkdirSync(path, { recursive: true, mode: 0o755 });
  using _lock = lockState(config);
  if (isUnfinished(config)) {
    applyRestore(config);
    if (!force) {
      throw new OperatorError('an interrupted restore is now finished: to restore another backup, use --force');
    }
  }
  const isPostgres = isPostgresUrl(config.database);
  if (!isPostgres && !force && (await hasData(config.databaseFile))) {
    throw new OperatorError(
      `${config.databaseFile} holds data: restore with --force, which keeps it beside, or choose another BERTH_STATE_DIR`,
    );
  }
  const folder = mkdtempSync(join(config.stateDir, '.berth-restore-'));
  try {
    const { files, made_at: madeAt, postgres } = await unpack(archive, folder, stop);
    const names = Object.keys(files);
    const unlike = unlikeness(config, postgres);
    if (unlike !== undefined) throw new OperatorError(`${archive} ${unlike}`);
    const rows = await adapt(isPostgres ? config.database : join(folder, PARTS.database), config.node, async (db) => {
      if (postgres) await refuseOther(db, postgres, force);
    });
    stop.throwIfAborted();
    // From here on nothing is awaited, so that no signal can interrupt it.
    makeReady(config, folder, names);
    // Before the commit, because the settings say where the restored state is.
    const put = putSettings(settings, join(folder, PARTS.settings));
    commitRestore(config, folder);
    const kept = [...(put.kept === undefined ? [] : [put.kept]), ...applyRestore(config)];
    const withoutJail = rows.usernames.filter((username) => !existsSync(pathsOf(config).jail(username)));
    return { ...rows, kept, settings: put.path, madeAt, withoutJail };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether there is anything to lose. A database that cannot be read counts: it may be worth repairing. */
async function hasData(file: string): Promise<boolean> {
  if (isBlank(file)) return existsSync(`${file}-wal`);
  try {
    await using inspection = await inspect(file);
    const account = await inspection.db.selectFrom('accounts').select('id').limit(1).executeTakeFirst();
    const principal = await inspection.db.selectFrom('principals').select('uid').limit(1).executeTakeFirst();
    return account !== undefined || principal !== undefined;
  } catch {
    return true;
  }
}

/** The reason why a backup cannot be restored with these settings, if there is one. */
function unlikeness({ database, node }: Config, postgres: OnPostgres | undefined): string | undefined {
  if (postgres === undefined) {
    if (!isPostgresUrl(database)) return undefined;
    return 'holds an SQLite database: restore it without BERTH_DATABASE_URL, then move it with berth migrate-to';
  }
  const settings = `BERTH_NODE=${postgres.node}`;
  if (!isPostgresUrl(database)) {
    return `was made with PostgreSQL: restore that, and set BERTH_DATABASE_URL and ${settings} first (its ${PARTS.settings} has them)`;
  }
  if (node === postgres.node) return undefined;
  return `is of the node ${postgres.node}, and this is ${node}: its directories are at home there. Set ${settings} first`;
}

/** @throws {OperatorError} when the database is not the one that the backup was made with, or is older than the backup. */
async function refuseOther({ db }: Database, { installation, backups }: OnPostgres, force: boolean): Promise<void> {
  const there = await db.selectFrom('installation').selectAll().executeTakeFirstOrThrow();
  if (there.id !== installation) throw new OperatorError('the database is not the one that the backup was made with');
  if (there.backups >= backups || force) return;
  throw new OperatorError(
    'the database is as it was before this backup: take a dump that was made after it, or use --force',
  );
}

/** @param place the database. @param refuse throws when the database must not be used. */
async function adapt(
  place: string,
  node: string,
  refuse: (database: Database) => Promise<void>,
): Promise<RestoredRows> {
  const database = await openDatabase(place, { check: true, isPatient: true });
  try {
    await refuse(database);
    return await adaptRestored(database, node);
  } finally {
    await database.close(); // the last connection moves the write-ahead log into the file
  }
}

/** Gives the unpacked files their final modes, makes the destination folders, and copies an SQLite database beside the one in use. */
function makeReady(config: Config, folder: string, names: readonly string[]): void {
  const { hostKeys, journal } = pathsOf(config);
  mkdirSync(hostKeys, { recursive: true, mode: 0o700 });
  // Announces files that are newer than the backup: without this folder, the next start would doubt them (uploads/log/journal-start.ts).
  mkdirSync(journal, { recursive: true, mode: 0o700 });
  mkdirSync(dirname(config.tls.key), { recursive: true, mode: 0o755 });
  for (const name of names) {
    const isPublic = name.endsWith('.pub') || name === PARTS.certificate;
    chmodSync(join(folder, name), isPublic ? 0o644 : 0o600);
  }
  for (const end of ['', '-wal', '-shm']) rmSync(waitingDatabase(config) + end, { force: true });
  if (!names.includes(PARTS.database)) return;
  copyFileSync(join(folder, PARTS.database), waitingDatabase(config));
  rmSync(join(folder, PARTS.database));
}

/** More UIDs than can have been given out since the backup. The range below 2^31 holds 2,600 times as many. */
const SKIPPED_UIDS = 100_000;

interface RestoredRows {
  readonly directories: number;
  readonly files: number;
  /** Webhooks that were still to be sent. */
  readonly pending: number;
  /** The SFTP users of live directories. */
  readonly usernames: readonly string[];
}

/**
 * In one transaction, for the rows of this node and those that all nodes share:
 * - Files: a copied file keeps its size and mtime, but has another inode. So the rows forget their inode, and the first scan notes the
 *   new one. A file that waited for its session to rename it counts as changed: its session is over, so the scan announces it.
 * - Sessions and links of the dashboard's users, and links to passwords, are removed: they may have ended since the backup.
 * - UIDs, usernames and numbers of events that were given out after the backup are unknown here, and must not be given out again. So
 *   part of each range is skipped, and readers of events notice the gap.
 * - The clock takes the time since the backup as elapsed.
 *
 * Deliveries stay: those that were due when the backup was made are sent, with the same webhook-id.
 */
export async function adaptRestored({ db }: Database, node: string): Promise<RestoredRows> {
  return db.transaction().execute(async (tx) => {
    const here = tx.selectFrom('directories').select('id').where('node', '=', node);
    await tx.updateTable('files').where('directory_id', 'in', here).set({ inode: forgottenInode() }).execute();
    const noFileHasThis: Micros = -1;
    await tx
      .updateTable('files')
      .set({ mtime: noFileHasThis })
      .where('state', '=', 'waiting')
      .where('directory_id', 'in', here)
      .execute();

    await tx.deleteFrom('user_sessions').execute();
    await tx.deleteFrom('user_links').execute();
    await tx.deleteFrom('links').where('kind', '=', 'password').execute();

    const now = systemClock().now();
    await tx
      .updateTable('clock')
      .set((eb) => ({ seen_at: eb.case().when('seen_at', '<', now).then(now).else(eb.ref('seen_at')).end(), lead: 0 }))
      .execute();
    const username = `restored-${randomText('abcdefghijklmnopqrstuvwxyz0123456789', 16)}`;
    await skipUids(tx, FIRST_UID, SKIPPED_UIDS, username);

    await skipNumbers(tx);

    const live = await here.select('sftp_username').where('deleted_at', 'is', null).execute();
    const { files } = await tx
      .selectFrom('files')
      .select(({ fn }) => fn.countAll<number>().as('files'))
      .where('directory_id', 'in', here)
      .executeTakeFirstOrThrow();
    const { pending } = await tx
      .selectFrom('deliveries')
      .select(({ fn }) => fn.countAll<number>().as('pending'))
      .where('state', 'in', ['queued', 'running', 'waiting'])
      .executeTakeFirstOrThrow();
    return { directories: live.length, files, pending, usernames: live.map((row) => row.sftp_username) };
  });
}
