/** The upkeep of a running service: the disk is compared with the database and repaired, old history removed, storage noted. */
import { once } from 'node:events';
import type { Background, Task } from '../base/background.ts';
import type { Clock } from '../base/clock.ts';
import { pagesById } from '../db/pages.ts';
import { finishDeletions } from '../directories/delete-accounts.ts';
import { type DirectoryHost, type HostedDirectory, hostedAfter } from '../directories/host.ts';
import type { Homes } from '../directories/homes.ts';
import { startExpiry } from '../directories/expiry.ts';
import type { RowRemoval } from '../directories/row-removal.ts';
import { applyCurrent, applyUnapplied } from '../directories/unapplied.ts';
import { noteStorage } from '../history/daily-storage.ts';
import { pruneHistory, type PruningOptions } from '../history/prune.ts';
import type { LocalHost } from '../sftp/host.ts';
import type { Paths } from '../sftp/paths.ts';
import { linkAll, reconcile, type ReconcileOptions } from '../sftp/reconcile.ts';
import type { Uploads } from '../uploads/start.ts';
import { removeExpired } from '../users/expired.ts';

/** How often what could not be applied to the disk is tried again. */
const RETRY_MS = 5000;
/** How often accounts to be deleted are looked up: an operator waits for it. */
const ACCOUNTS_MS = 1000;
/** How often the clock is looked at: as much of a downtime may count as a lead. */
const CLOCK_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Directories that are read at once. */
const PAGE = 200;

/** How often it is checked whether the disk of the jails is mounted. */
const DISK_MS = 2000;

/** How often sessions without their monitor are looked for. */
const SWEEP_MS = 10_000;

export interface UpkeepOptions extends PruningOptions {
  readonly background: Background;
  readonly clock: Clock;
  readonly paths: Paths;
  /** The host that the rules use. */
  readonly host: DirectoryHost;
  readonly homes: Homes;
  readonly local: LocalHost;
  readonly removal: RowRemoval;
  readonly uploads: Uploads;
  readonly isJailDiskThere: () => boolean;
}

export interface Upkeep {
  /** Resolves when every directory has been compared, or when the upkeep ends before. */
  readonly covered: Promise<void>;
  close(): Promise<void>;
}

export function startUpkeep(options: UpkeepOptions): Upkeep {
  const { background } = options;
  const expiry = startExpiry(options);
  const unapplied = background.start(
    'unapplied',
    { every: RETRY_MS },
    async () => void (await applyUnapplied(options)),
  );
  // The disk has to have room for it.
  const reserve = background.start('reserve', { every: RETRY_MS, atOnce: true }, () =>
    options.database.reserve.refill(),
  );
  const history = background.start('history', { every: HOUR_MS }, async (signal) => {
    await pruneHistory(options, signal);
    await removeExpired(options, signal);
    await noteStorage(options);
  });
  const clock = background.start(
    'clock',
    { every: CLOCK_MS, atOnce: true },
    async () => void (await options.clockLead()),
  );
  const accounts = background.start('accounts', { every: ACCOUNTS_MS, atOnce: true }, (signal) =>
    finishDeletions(options, signal),
  );
  const unwatched = background.start('unwatched-sessions', { every: SWEEP_MS }, () => options.local.endUnwatched());
  const disk = background.start('jails-disk', { every: DISK_MS }, diskWatch(options));
  const { promise: covered, resolve } = Promise.withResolvers<void>();
  const coverage = background.start('coverage', { every: RETRY_MS, atOnce: true }, async (signal) => {
    await coverAll(options, signal);
    resolve();
  });
  // Once is enough; the history has waited for it.
  void covered.then(() => Promise.all([coverage.close(), history.run()]));
  return {
    covered,
    async close() {
      for (const loop of [expiry, coverage, disk, accounts, history, clock, unapplied, unwatched, reserve])
        await loop.close();
      resolve();
    },
  };
}

/**
 * Every jail is linked to the transfer log, so that nothing is missed; every jail and credential is compared with its row,
 * whatever the scans will run into; then every file is looked at and watched.
 */
async function coverAll(options: UpkeepOptions, signal: AbortSignal) {
  const { log, uploads } = options;
  const disk = reconciling(options, signal);
  const directories = await linkAll(disk);
  // Sessions that began before their jail was linked to the log are not known to it.
  await uploads.adoptSessions();
  const { checked, repaired } = await reconcile(disk);
  if (signal.aborted) return;
  log.info({ directories: checked, repaired }, 'every directory has been compared');
  // A repaired jail is new to the log and the watcher, too.
  await uploads.adoptSessions();
  await Promise.race([uploads.coverAll(), once(signal, 'abort')]);
  if (signal.aborted) return;
  log.info({ directories }, 'every directory is watched or covered by scans');
}

function reconciling(options: UpkeepOptions, signal: AbortSignal): ReconcileOptions {
  const { database, homes, host, local, log, paths, removal } = options;
  return {
    paths,
    log,
    host: local,
    signal,
    rows: (after, limit) => hostedAfter(database.reads, homes.here, after, limit),
    reapply: async (id) => void (await applyCurrent({ database, host, homes, removal }, id)),
  };
}

/**
 * Reports a disk of the jails that has gone while berth runs. When it is back, every jail is linked to the transfer log again
 * and scanned: what happened there meanwhile, nobody has heard.
 */
function diskWatch(options: UpkeepOptions): Task {
  const { isJailDiskThere, log, paths, uploads } = options;
  let wasThere = true;
  return async (signal) => {
    const isThere = isJailDiskThere();
    if (isThere === wasThere) return;
    if (!isThere) {
      log.error(
        { folder: paths.jails },
        'the disk of the jails is not mounted any more: no upload arrives and no file counts as removed until it is mounted again',
      );
    } else {
      log.warn({ folder: paths.jails }, 'the disk of the jails is mounted again: every directory is scanned');
      const disk = reconciling(options, signal);
      await linkAll(disk);
      await reconcile(disk);
      await eachDirectory(disk, (directory) => uploads.scan(directory));
    }
    wasThere = isThere;
  };
}

async function eachDirectory({ rows, signal }: ReconcileOptions, step: (row: HostedDirectory) => void): Promise<void> {
  for await (const page of pagesById((after) => rows(after, PAGE), signal)) page.forEach(step);
}
