/**
 * Decides which jails are watched: all, up to a limit. With more directories, only those that had a session most
 * recently. The transfer log announces what sessions change, and scans cover the other directories.
 */
import { LRUCache } from 'lru-cache';
import { errorCode } from '../../../foundation/base/errors.ts';
import type { Log } from '../../../foundation/base/log.ts';
import type { FilePath, FilesRoot } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { EventQueue } from './hint-loss.ts';
import { type JailWatch, PausingWatch } from './jail-watcher.ts';

export interface WatcherOptions {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  /** How many jails are watched at most. */
  readonly limit: number;
  changed(jail: Jail, path: FilePath): void;
  missing(jail: Jail, path: FilePath): void;
  /** Something happened in the jail that only a scan can find out. */
  unclear(jail: Jail): void;
  /** A folder appeared in the jail. Files may have been added to it before it was watched. */
  newFolder(jail: Jail): void;
  /** The kernel may have dropped events of any jail. */
  overflowed(): void;
  /** How many events the kernel queues for this process at most. Read from the kernel when left out. */
  readonly queueLength?: number | undefined;
}

interface Watched {
  readonly watch: JailWatch;
  readonly renewal?: Renewal | undefined;
}

/** The numbers of folders that made a watch necessary again, and when it was made, by the monotonic clock in ms. */
interface Renewal {
  readonly watched: number;
  readonly folders: number;
  readonly at: number;
}

const LIMITS: Record<string, string> = {
  ENOSPC:
    'no inotify watches left: raise fs.inotify.max_user_watches (sysctl); until then slow scans find what changes',
  EMFILE:
    'no inotify instances or open files left: raise fs.inotify.max_user_instances or the limit of open files; until then slow scans find what changes',
};

/** A crowded jail with fewer folders than this is watched again. */
const FEW_FOLDERS = 500;

/**
 * The shortest time between renewals of one watch, in ms. Its user can make them necessary, and chokidar looks at every
 * file then.
 */
const RENEWAL_PAUSE_MS = 600_000;

/**
 * The shortest time between two log lines about failing paths of one jail, in ms. Its user can cause any number of
 * failures.
 */
const QUIET_MS = 60_000;

export class Watcher {
  readonly #options: WatcherOptions;
  readonly #events: EventQueue;
  /** The watches by directory, least recently used first. */
  readonly #watchers: LRUCache<string, Watched>;
  readonly #closing = new Set<Promise<void>>();
  /** Jails that have too many folders to be watched. */
  readonly #crowded = new Map<string, Jail>();
  /** How many paths failed since the last log line about one, by directory. */
  readonly #failures = new Map<string, number>();
  /** False once the kernel has refused a watch. */
  #hasAllWatches = true;
  #isLimited = false;
  #isSomeoneLeftOut = false;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#events = new EventQueue((jails) => {
      for (const jail of jails) options.unclear(jail);
      options.overflowed();
    }, options.queueLength);
    this.#watchers = new LRUCache({
      max: options.limit,
      dispose: ({ watch }, _id, reason) => {
        if (reason === 'evict') this.#isSomeoneLeftOut = true;
        const closed = watch.close().finally(() => this.#closing.delete(closed));
        this.#closing.add(closed);
      },
    });
  }

  /** A round of scans begins, over that many directories. */
  begin(directories: number): void {
    this.#isLimited = directories > this.#options.limit;
    this.#isSomeoneLeftOut = false;
  }

  /**
   * Watches a directory when there is room. Called for each directory in a round, before it is scanned, and for a new one. Files may be
   * written to a new one before its watch has begun, so it is scanned then.
   */
  add(jail: Jail, { isNew = false } = {}): void {
    const watchers = this.#watchers;
    if (this.#crowded.has(jail.id) || watchers.has(jail.id)) return;
    const hasRoom = !this.#isLimited && watchers.size < this.#options.limit && this.#hasAllWatches;
    if (hasRoom) this.#watch(jail, { isNew });
    else this.#isSomeoneLeftOut = true;
  }

  /** A session has begun: watches its directory, if necessary instead of the least recently used one. */
  use(jail: Jail): void {
    if (!this.#crowded.has(jail.id) && !this.#watchers.get(jail.id)) this.#watch(jail);
  }

  remove({ id }: Pick<Jail, 'id'>): void {
    this.#crowded.delete(id);
    this.#watchers.delete(id);
  }

  crowded(): Jail[] {
    return [...this.#crowded.values()];
  }

  /**
   * A scan has counted a jail's folders. A crowded jail with few folders is watched again. A watch that does not cover
   * all folders, because events were lost, is renewed: a folder without a watch would stay silent.
   */
  scanned(jail: Jail, folders: number): void {
    if (folders < FEW_FOLDERS && this.#crowded.delete(jail.id)) return this.#watch(jail);
    const current = this.#watchers.peek(jail.id);
    const watched = current?.watch.folders();
    if (!current || watched === undefined || watched === folders) return;
    const { renewal } = current;
    // A folder whose name is not UTF-8 is never watched.
    const isKnown = renewal?.watched === watched && renewal.folders === folders;
    const now = performance.now();
    if (isKnown || (renewal && now - renewal.at < RENEWAL_PAUSE_MS)) return;
    this.#watch(jail, { renewal: { watched, folders, at: now } });
  }

  /** Whether every jail is watched, except for crowded ones. */
  isComplete(): boolean {
    return !this.#isSomeoneLeftOut && this.#hasAllWatches;
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    await Promise.all(this.#closing);
  }

  #watch(jail: Jail, { renewal, isNew = false }: { renewal?: Renewal; isNew?: boolean } = {}): void {
    const { filesRoot, changed, missing, unclear, newFolder } = this.#options;
    const watch = new PausingWatch(filesRoot(jail.sftp_username), {
      heard: () => this.#events.heard(jail),
      changed: (path) => changed(jail, path),
      missing: (path) => missing(jail, path),
      unclear: () => unclear(jail),
      newFolder: () => newFolder(jail),
      // Files that were there before cause no event.
      ready() {
        if (renewal || isNew) unclear(jail);
      },
      failed: (error) => this.#failed(jail, error),
      crowded: () => this.#giveUp(jail),
    });
    this.#watchers.set(jail.id, { watch, renewal });
  }

  #giveUp(jail: Jail): void {
    const { log, unclear } = this.#options;
    this.#crowded.set(jail.id, jail);
    log.warn(
      { username: jail.sftp_username },
      'too many folders to watch: scans find what changes in this directory without a session',
    );
    setImmediate(() => this.#watchers.delete(jail.id)); // the watch itself makes this call
    unclear(jail);
  }

  #failed(jail: Jail, error: unknown): void {
    const { log, unclear } = this.#options;
    const code = errorCode(error) ?? '';
    const advice = LIMITS[code];
    if (advice === undefined) this.#failedOnPath(jail, error);
    else if (this.#hasAllWatches) log.error(advice);
    if (advice !== undefined) this.#hasAllWatches = false;
    // When watches ran out, rounds of scans cover everything. Any other failure hides changes in this jail only.
    if (code !== 'ENOSPC') unclear(jail);
  }

  /**
   * Logs a failure on one path. Example: a name of 255 bytes that are not UTF-8, which is too long once it is converted
   * to UTF-8.
   */
  #failedOnPath({ id, sftp_username: username }: Jail, error: unknown): void {
    const { log } = this.#options;
    const before = this.#failures.get(id);
    this.#failures.set(id, (before ?? -1) + 1);
    if (before !== undefined) return;
    log.warn({ err: error, username }, 'the watcher failed on one path');
    const tellOthers = (): void => {
      const more = this.#failures.get(id);
      this.#failures.delete(id);
      if (more) log.warn({ username, more }, 'the watcher failed on more paths');
    };
    setTimeout(tellOthers, QUIET_MS).unref();
  }
}
