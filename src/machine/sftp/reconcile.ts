/**
 * Makes the disk agree with the database after a crash, a restored backup or an operator's mistake. The files of every
 * row are compared, and repaired where they differ. Credentials without a row are removed and reported. Data without a
 * row is reported and never touched: restoring an older database must not cost customers their files.
 *
 * Runs beside the service, and writes nothing where all is well. `reapply` reads the row again, so a change made
 * through the API meanwhile is not undone.
 */
import { lstatSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { type HostedDirectory, isUsername } from '../../rules/directories/host.ts';
import { errorMessage } from '../../foundation/base/errors.ts';
import { pagesById } from '../../foundation/db/lists.ts';
import type { Log } from '../../foundation/base/log.ts';
import { areCredentialsRight, removeCredentials, usersWithCredentials, writeCredentials } from './credentials.ts';
import type { LocalHost } from './host.ts';
import { ensureJail, isJailRight } from './jail.ts';
import { CORNER, type Paths } from './paths.ts';

export interface ReconcileOptions {
  readonly paths: Paths;
  readonly log: Log;
  readonly host: LocalHost;
  /** The next rows that are not deleted, after an id and in the order of ids; none at the end. */
  readonly rows: (after: string, limit: number) => HostedDirectory[] | Promise<HostedDirectory[]>;
  /** Reads a row again and applies it. Does nothing if the row is gone. */
  readonly reapply: (id: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Reconciled {
  readonly checked: number;
  readonly repaired: number;
  readonly failed: number;
  /** Users whose credentials were removed, because no directory has that name. */
  readonly credentialsRemoved: readonly string[];
  /** Entries among the jails that belong to no directory, left as they are. */
  readonly strangers: readonly string[];
}

/** How many rows are read at once. */
const BATCH_ROWS = 200;

/** How long the event loop is blocked at once. */
const TURN_MS = 5;

/** The pause after each turn of comparing. Nobody waits for the comparison. */
const PAUSE_MS = 5;

/**
 * Links the transfer log's socket into every jail. Until then the log of that jail's sessions is lost, so this comes
 * first. Applies a directory that has no jail. Returns how many directories there are.
 */
export async function linkAll(options: Omit<ReconcileOptions, 'paths'>): Promise<number> {
  let count = 0;
  await eachRow(options, setImmediate, async (row) => {
    count++;
    if (!(await options.host.relink(row.sftp_username))) await options.reapply(row.id);
  });
  return count;
}

/**
 * Writes the credentials of these rows, and removes those of deleted rows and of users without a row. Needs little else, so that it works
 * whatever else is broken. A row that fails is logged and does not stop the others.
 */
export function applyCredentials(
  { paths, log }: Pick<ReconcileOptions, 'paths' | 'log'>,
  {
    rows,
    gone,
  }: {
    readonly rows: readonly (HostedDirectory & { readonly deleted_at: number | null })[];
    readonly gone: readonly string[];
  },
): void {
  for (const username of gone) removeCredentials(paths, username);
  for (const row of rows) {
    try {
      if (row.deleted_at !== null) removeCredentials(paths, row.sftp_username);
      else if (!areCredentialsRight(paths, row)) writeCredentials(paths, row);
      if (row.deleted_at === null && !isJailRight(paths, row)) ensureJail(paths, row);
    } catch (error) {
      log.error({ directory: row.id, reason: errorMessage(error) }, 'could not repair the credentials of a directory');
    }
  }
}

/** Compares everything once. Stops early when the signal is aborted, with the results so far. */
export async function reconcile(options: ReconcileOptions): Promise<Reconciled> {
  const { paths, log, host, reapply, signal } = options;
  // List the disk before reading the rows. A row is committed before its files appear, so an entry listed here that has
  // no row later has none at all.
  const users = await usersWithCredentials(paths);
  const jails = await readdir(paths.jails);
  const known = new Set<string>();
  let repaired = 0;
  const pause = (): Promise<void> => setTimeout(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  const failed = await eachRow(options, pause, async (row) => {
    known.add(row.sftp_username);
    if (host.isApplied(row)) return;
    await reapply(row.id);
    repaired++;
  });
  const compared = { checked: known.size, repaired, failed };
  if (signal.aborted) return { ...compared, credentialsRemoved: [], strangers: [] };

  const credentialsRemoved = [...users].filter((name) => !known.has(name) && removeCredentials(paths, name));
  for (const username of credentialsRemoved) {
    log.warn({ username }, 'no directory has this SFTP user: its credentials were removed, its files stay');
  }
  const exists = (name: string): boolean => lstatSync(join(paths.jails, name), { throwIfNoEntry: false }) !== undefined;
  const strangers = jails.filter(
    (name) => name !== CORNER && name !== 'lost+found' && !known.has(name) && exists(name),
  );
  for (const name of strangers) {
    const what = isUsername(name) ? 'a jail that belongs to no directory' : 'an unknown entry among the jails';
    log.warn({ name }, `${what}: left as it is`);
  }
  return { ...compared, credentialsRemoved, strangers };
}

/** Runs a step for every row, with a pause after each turn. Returns how many rows failed. */
async function eachRow(
  { log, rows, signal }: Pick<ReconcileOptions, 'log' | 'rows' | 'signal'>,
  pause: () => Promise<void>,
  step: (row: HostedDirectory) => Promise<void>,
): Promise<number> {
  let failed = 0;
  let began = performance.now();
  for await (const batch of pagesById((after) => rows(after, BATCH_ROWS), signal)) {
    for (const row of batch) {
      try {
        await step(row);
      } catch (error) {
        failed++;
        log.error({ directory: row.id, reason: errorMessage(error) }, 'could not repair a directory');
      }
      if (performance.now() - began < TURN_MS) continue;
      await pause();
      if (signal.aborted) return failed;
      began = performance.now();
    }
  }
  return failed;
}
