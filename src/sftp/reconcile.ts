/**
 * Makes the disk agree with the database after a crash, a restored backup or somebody's mistake. Every row's files are
 * compared, and mended where they differ. Credentials that no row explains are taken away and reported. Data that no row
 * explains is reported and never touched: a restored older database must not cost customers their files.
 *
 * Runs in batches beside the service, with reads only where all is well. `reapply` reads the row anew, so a change made
 * through the API meanwhile is not undone.
 */
import { opendir } from 'node:fs/promises';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import type { HostedDirectory } from '../directories/host.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import type { LocalHost } from './host.ts';
import { CORNER, isUsername, type Paths } from './paths.ts';
import { userOfRecord } from './user-record.ts';

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

const BATCH = 50;

/** Compares everything once. Stops early, with what it has found, when the signal says so. */
export async function reconcile(options: ReconcileOptions): Promise<Reconciled> {
  // Listed before the rows are read: a row is committed before its files appear, so whatever is listed here and has no row
  // later has none at all.
  const onDisk = await listUsers(options.paths);
  const jails = await list(options.paths.jails);
  const { known, mended, failed } = await mendRows(options);
  if (options.signal.aborted) {
    return { checked: known.size, mended, failed, credentialsRemoved: [], strangers: [] };
  }
  const credentialsRemoved = [...onDisk].filter(
    (username) => !known.has(username) && options.host.removeCredentials(username),
  );
  const strangers = jails.filter(
    (name) =>
      name !== CORNER && !known.has(name) && lstatSync(join(options.paths.jails, name), { throwIfNoEntry: false }),
  );
  report(options.log, credentialsRemoved, strangers);
  return { checked: known.size, mended, failed, credentialsRemoved, strangers };
}

async function mendRows({ log, host, rows, reapply, signal }: ReconcileOptions) {
  const known = new Set<string>();
  let mended = 0;
  let failed = 0;
  for (let after = ''; !signal.aborted;) {
    const batch = await rows(after, BATCH);
    for (const row of batch) {
      known.add(row.sftp_username);
      try {
        // After every start, and no reason to write anything else.
        await host.relink(row.sftp_username);
        if (host.isApplied(row)) continue;
        await reapply(row.id);
        mended++;
      } catch (error) {
        failed++;
        log.error({ directory: row.id, reason: errorMessage(error) }, 'a directory could not be brought into order');
      }
    }
    after = batch.at(-1)?.id ?? '';
    if (after === '') break;
    await yieldToOthers();
  }
  return { known, mended, failed };
}

function report(log: Log, credentialsRemoved: readonly string[], strangers: readonly string[]): void {
  for (const username of credentialsRemoved) {
    log.warn({ username }, 'no directory has this SFTP user: its credentials were taken away, its files are kept');
  }
  for (const name of strangers) {
    const what = isUsername(name) ? 'a jail that belongs to no directory' : 'something foreign among the jails';
    log.warn({ name }, `${what}: left as it is`);
  }
}

/** Every username that has a credential or a limit. */
async function listUsers(paths: Paths): Promise<Set<string>> {
  const users = (await list(paths.userdb)).flatMap((file) => userOfRecord(file) ?? []);
  const others = [...(await list(paths.authorizedKeys)), ...(await list(paths.limits))];
  return new Set([...users, ...others.map((name) => name.replace(/\.new$/, ''))]);
}

async function list(folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(folder)) names.push(entry.name);
  return names;
}
