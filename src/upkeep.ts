/** What goes on in the background of a running service: the disk is compared with the database, and mended. */
import { setTimeout } from 'node:timers/promises';
import type { Database } from './db/open.ts';
import { type DirectoryHost, hostedAfter } from './directories/host.ts';
import type { RowRemoval } from './directories/row-removal.ts';
import { applyCurrent, applyUnapplied } from './directories/unapplied.ts';
import type { Log } from './log.ts';
import type { LocalHost } from './sftp/host.ts';
import type { Paths } from './sftp/paths.ts';
import { linkAll, reconcile } from './sftp/reconcile.ts';
import type { Uploads } from './uploads/start.ts';

/** How often what could not be applied to the disk is tried again, in ms. */
const RETRY = 5000;

export interface UpkeepOptions {
  readonly database: Database;
  /** The host that the rules use. */
  readonly host: DirectoryHost;
  readonly removal: RowRemoval;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Once after the start: every jail is linked to the transfer log, then every file is looked at and watched; when nothing
 * can be missed any more, every jail and credential is compared with its row, at leisure. Never rejects.
 */
export async function coverAll(
  options: UpkeepOptions & { readonly paths: Paths; readonly local: LocalHost; readonly uploads: Uploads },
): Promise<void> {
  const { database, host, local, log, uploads } = options;
  try {
    const disk = {
      paths: options.paths,
      log,
      host: local,
      rows: (after: string, limit: number) => hostedAfter(database.reads, after, limit),
      reapply: (id: string) => applyCurrent({ database, host }, id),
      signal: options.signal,
    };
    const directories = await linkAll(disk);
    // Sessions that began before their jail was linked to the log are not known to it.
    await uploads.adoptSessions();
    await uploads.coverAll();
    log.info({ directories }, 'every directory is watched or covered by scans');
    const result = await reconcile(disk);
    log.info({ directories: result.checked, mended: result.mended }, 'every directory has been looked at');
  } catch (error) {
    log.error({ err: error }, 'the look at all directories failed; the next start repeats it');
  }
}

/** Again and again: what failed on a full disk, say, is applied when that is over. Ends with the signal. */
export async function retryUnapplied({ signal, ...options }: UpkeepOptions): Promise<void> {
  while (!signal.aborted) {
    await setTimeout(RETRY, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    await applyUnapplied(options).catch((error: unknown) =>
      options.log.error({ err: error }, 'cannot read what is still to be applied'),
    );
  }
}
