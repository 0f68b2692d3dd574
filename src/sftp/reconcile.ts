/**
 * Makes the disk agree with the database after a crash, a restored backup or somebody's mistake. Every row's files are
 * compared, and mended where they differ. Credentials that no row explains are taken away and reported. Data that no row
 * explains is reported and never touched: a restored older database must not cost customers their files.
 *
 * Runs beside the service, read-only where all is well. `reapply` reads the row anew, so a change made through the API
 * meanwhile is not undone.
 */
import { lstatSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { HostedDirectory } from '../directories/host.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { areCredentialsRight, removeCredentials, usersWithCredentials, writeCredentials } from './credentials.ts';
import type { LocalHost } from './host.ts';
import { ensureJail, isJailRight } from './jail.ts';
import { isUsername } from '../directories/host.ts';
import { CORNER, type Paths } from './paths.ts';

export interface ReconcileOptions {
  readonly paths: Paths;
  readonly log: Log;
  readonly host: LocalHost;
  /** The next rows that are not deleted, in order of id, after that id; none at the end. */
  readonly rows: (after: string, limit: number) => HostedDirectory[] | Promise<HostedDirectory[]>;
  /** Reads the row anew and applies it, or does nothing when it has gone. */
  readonly reapply: (id: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Reconciled {
  readonly checked: number;
  readonly mended: number;
  readonly failed: number;
  /** Users whose credentials were taken away, since no directory has that name. */
  readonly credentialsRemoved: readonly string[];
  /** Entries among the jails that belong to no directory, left as they are. */
  readonly strangers: readonly string[];
}

/** Rows that are read at once. */
const BATCH = 200;

/** How long the event loop is held at once, in ms. */
const TURN = 5;

/** How long everything else has it after each turn of comparing, in ms: nobody waits for that. */
const REST = 5;

/**
 * Gives every jail the transfer log's socket: until then nobody hears what its sessions do, so it comes before all else.
 * A directory without a jail is applied. Returns how many directories there are.
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
 * Lets in whom these rows let in, in the way that they say, and nobody that they call deleted or who has gone. Nothing else
 * of them is looked at, so it works whatever else is broken. One that fails is logged and does not stop the others.
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
      log.error(
        { directory: row.id, reason: errorMessage(error) },
        'the credentials of a directory could not be mended',
      );
    }
  }
}

/** Compares everything once. Stops early, with what it has found, when the signal says so. */
export async function reconcile(options: ReconcileOptions): Promise<Reconciled> {
  const { paths, log, host, reapply, signal } = options;
  // Listed before the rows are read: a row is committed before its files appear, so whatever is listed here and has no row
  // later has none at all.
  const users = await usersWithCredentials(paths);
  const jails = await readdir(paths.jails);
  const known = new Set<string>();
  let mended = 0;
  const rest = (): Promise<void> => setTimeout(REST, undefined, { signal }).catch(() => undefined);
  const failed = await eachRow(options, rest, async (row) => {
    known.add(row.sftp_username);
    if (host.isApplied(row)) return;
    await reapply(row.id);
    mended++;
  });
  const compared = { checked: known.size, mended, failed };
  if (signal.aborted) return { ...compared, credentialsRemoved: [], strangers: [] };

  const credentialsRemoved = [...users].filter((name) => !known.has(name) && removeCredentials(paths, name));
  for (const username of credentialsRemoved) {
    log.warn({ username }, 'no directory has this SFTP user: its credentials were taken away, its files are kept');
  }
  const exists = (name: string): boolean => lstatSync(join(paths.jails, name), { throwIfNoEntry: false }) !== undefined;
  const strangers = jails.filter(
    (name) => name !== CORNER && name !== 'lost+found' && !known.has(name) && exists(name),
  );
  for (const name of strangers) {
    const what = isUsername(name) ? 'a jail that belongs to no directory' : 'something foreign among the jails';
    log.warn({ name }, `${what}: left as it is`);
  }
  return { ...compared, credentialsRemoved, strangers };
}

/** Takes a step for every row, and a pause after each turn. Returns for how many rows it failed. */
async function eachRow(
  { log, rows, signal }: Pick<ReconcileOptions, 'log' | 'rows' | 'signal'>,
  pause: () => Promise<void>,
  step: (row: HostedDirectory) => Promise<void>,
): Promise<number> {
  let failed = 0;
  let began = performance.now();
  for (let after: string | undefined = ''; after !== undefined && !signal.aborted;) {
    const batch: HostedDirectory[] = await rows(after, BATCH);
    for (const row of batch) {
      try {
        await step(row);
      } catch (error) {
        failed++;
        log.error({ directory: row.id, reason: errorMessage(error) }, 'a directory could not be brought into order');
      }
      if (performance.now() - began < TURN) continue;
      await pause();
      if (signal.aborted) return failed;
      began = performance.now();
    }
    after = batch.at(-1)?.id;
  }
  return failed;
}
