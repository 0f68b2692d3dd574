/** The upkeep of a running service: compares the disk with the database and repairs it, removes old history, records storage. */
import { once } from 'node:events';
import type { Task } from '../foundation/base/background.ts';
import { pagesById } from '../foundation/db/lists.ts';
import { finishDeletions } from '../rules/directories/delete.ts';
import { hostedAfter, type HostedDirectory } from '../rules/directories/host.ts';
import { startExpiry } from '../rules/directories/update.ts';
import { applyCurrent, applyPending } from '../rules/directories/pending-apply.ts';
import type { RuleContext } from '../rules/directories/target.ts';
import { noteStorage } from '../rules/history/daily-totals.ts';
import { pruneHistory } from '../rules/history/removal.ts';
import type { LocalHost } from '../machine/sftp/host.ts';
import type { Paths } from '../machine/sftp/paths.ts';
import { linkAll, reconcile, type ReconcileOptions } from '../machine/sftp/reconcile.ts';
import type { Uploads } from '../arrivals/uploads/start.ts';
import { removeExpired } from '../rules/users/sessions.ts';

/** How often changes that could not be applied to the disk are retried. */
const RETRY_MS = 5000;
/** How often accounts to be deleted are looked up: an operator waits for that. */
const ACCOUNTS_MS = 1000;
/** How often the clock is checked. A downtime of up to this long may count as a lead. */
const CLOCK_MS = 60_000;
const HOUR_MS = 3_600_000;

/** How many directories are read at once. */
const PAGE = 200;

/** How often we check that the disk of the jails is mounted. */
const DISK_MS = 2000;

/** How often sessions without a monitor are searched for. */
const SWEEP_MS = 10_000;

export interface UpkeepContext extends RuleContext {
  readonly paths: Paths;
  readonly local: LocalHost;
  readonly uploads: Uploads;
  readonly isJailDiskThere: () => boolean;
}

export interface Upkeep {
  /** Resolves when every directory has been compared, or when the upkeep is closed before. */
  readonly covered: Promise<void>;
  close(): Promise<void>;
}

export function startUpkeep(context: UpkeepContext): Upkeep {
  const { background } = context;
  const expiry = startExpiry(context);
  const pendingApply = background.start(
    'unapplied',
    { every: RETRY_MS },
    async () => void (await applyPending(context)),
  );
  // Retried, since the disk needs room for the reserve.
  const reserve = background.start('reserve', { every: RETRY_MS, atOnce: true }, () =>
    context.database.reserve.refill(),
  );
  const history = background.start('history', { every: HOUR_MS }, async (signal) => {
    await pruneHistory(context, signal);
    await removeExpired(context, signal);
    await noteStorage(context);
  });
  const clock = background.start(
    'clock',
    { every: CLOCK_MS, atOnce: true },
    async () => void (await context.clockLead()),
  );
  const accounts = background.start('accounts', { every: ACCOUNTS_MS, atOnce: true }, (signal) =>
    finishDeletions(context, signal),
  );
  const unwatched = background.start('unwatched-sessions', { every: SWEEP_MS }, () => context.local.endUnwatched());
  const disk = background.start('jails-disk', { every: DISK_MS }, diskWatch(context));
  const { promise: covered, resolve } = Promise.withResolvers<void>();
  const coverage = background.start('coverage', { every: RETRY_MS, atOnce: true }, async (signal) => {
    await coverAll(context, signal);
    resolve();
  });
  // One coverage suffices. The history has waited for it.
  void covered.then(() => Promise.all([coverage.close(), history.run()]));
  return {
    covered,
    async close() {
      for (const loop of [expiry, coverage, disk, accounts, history, clock, pendingApply, unwatched, reserve])
        await loop.close();
      resolve();
    },
  };
}

/**
 * Links every jail to the transfer log, so that nothing is missed; compares every jail and credential with its row, before scans that may
 * fail; then compares and watches every file.
 */
async function coverAll(context: UpkeepContext, signal: AbortSignal) {
  const { log, uploads } = context;
  const disk = reconciling(context, signal);
  const directories = await linkAll(disk);
  // The log does not know sessions that began before their jail was linked to it.
  await uploads.adoptSessions();
  const { checked, repaired } = await reconcile(disk);
  if (signal.aborted) return;
  log.info({ directories: checked, repaired }, 'every directory has been compared');
  // To the log and the watcher, a repaired jail is new.
  await uploads.adoptSessions();
  await Promise.race([uploads.coverAll(), once(signal, 'abort')]);
  if (signal.aborted) return;
  log.info({ directories }, 'every directory is watched or covered by scans');
}

function reconciling(context: UpkeepContext, signal: AbortSignal): ReconcileOptions {
  const { database, placement, local, log, paths } = context;
  return {
    paths,
    log,
    host: local,
    signal,
    rows: (after, limit) => hostedAfter(database.reads, placement.here, after, limit),
    reapply: async (id) => void (await applyCurrent(context, id)),
  };
}

/**
 * Reports when the disk of the jails is unmounted while berth runs. When it is back, links every jail to the transfer log again, and
 * scans it, since nothing that happened there meanwhile was logged.
 */
function diskWatch(context: UpkeepContext): Task {
  const { isJailDiskThere, log, paths, uploads } = context;
  let wasThere = true;
  return async (signal) => {
    const isThere = isJailDiskThere();
    if (isThere === wasThere) return;
    if (!isThere) {
      log.error(
        { folder: paths.jails },
        'the disk of the jails is no longer mounted: until it is mounted again, no upload arrives, and no file counts as removed',
      );
    } else {
      log.warn({ folder: paths.jails }, 'the disk of the jails is mounted again: scanning every directory');
      const disk = reconciling(context, signal);
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
