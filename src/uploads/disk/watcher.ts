/**
 * Which jails are watched. Up to a limit, all. With more directories than that, only those whose users have been here
 * most recently: changes by SFTP come through sessions, which the transfer log announces, and scans cover the others.
 */
import { LRUCache } from 'lru-cache';
import { errorCode } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { FilePath, FilesRoot } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { EventQueue } from './hint-loss.ts';
import { type JailWatch, watchJail } from './jail-watcher.ts';

export interface WatcherOptions {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  /** How many jails are watched at most. */
  readonly limit: number;
  changed(jail: Jail, path: FilePath): void;
  missing(jail: Jail, path: FilePath): void;
  /** Something happened in that jail that only a scan can tell. */
  unclear(jail: Jail): void;
  /** A folder appeared in that jail: files may have come into it before it was watched. */
  newFolder(jail: Jail): void;
  /** The kernel may have dropped events, of any jail. */
  overflowed(): void;
  /** Events that the kernel keeps for this process at most; what it says when left out. */
  readonly queueLength?: number | undefined;
}

interface Watched {
  readonly watch: JailWatch;
  readonly renewal?: Renewal | undefined;
}

/** Why a watch was made again, and when by the monotonic clock. */
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

/** Between renewals of one watch: its user can make them necessary, and chokidar looks at every file then. */
const RENEWAL_PAUSE_MS = 600_000;

/** Between two lines about single paths of a jail, in ms: its user can cause as many failures as they like. */
const QUIET = 60_000;

export class Watcher {
  readonly #options: WatcherOptions;
  readonly #events: EventQueue;
  /** By directory. */
  readonly #watchers: LRUCache<string, Watched>;
  readonly #closing = new Set<Promise<void>>();
  /** Jails that have too many folders to be watched. */
  readonly #crowded = new Map<string, Jail>();
  /** How many single paths failed since the line about one of them, by directory. */
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

  /** A directory that a round has come to, or a new one: watched when there is room. */
  add(jail: Jail): void {
    const watchers = this.#watchers;
    if (this.#crowded.has(jail.id) || watchers.has(jail.id)) return;
    const hasRoom = !this.#isLimited && watchers.size < this.#options.limit && this.#hasAllWatches;
    if (hasRoom) this.#watch(jail);
    else this.#isSomeoneLeftOut = true;
  }

  /** A session has begun: its directory is watched, if need be instead of the one whose session was longest ago. */
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
   * A scan found the jail to have that many folders. A crowded one with few is watched again. When the watch does not
   * have them all, since events were lost, it is renewed: a folder without a watch would be silent for ever.
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
    this.#watch(jail, { watched, folders, at: now });
  }

  /** Whether every jail is watched; crowded ones apart. */
  isComplete(): boolean {
    return !this.#isSomeoneLeftOut && this.#hasAllWatches;
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    await Promise.all(this.#closing);
  }

  #watch(jail: Jail, renewal?: Renewal): void {
    const { filesRoot, changed, missing, unclear, newFolder } = this.#options;
    const watch = watchJail(filesRoot(jail.sftp_username), {
      heard: () => this.#events.heard(jail),
      changed: (path) => changed(jail, path),
      missing: (path) => missing(jail, path),
      unclear: () => unclear(jail),
      newFolder: () => newFolder(jail),
      // What came into a folder before it was watched again has no other sign.
      ready() {
        if (renewal) unclear(jail);
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
    setImmediate(() => this.#watchers.delete(jail.id)); // the call comes from within it
    unclear(jail);
  }

  #failed(jail: Jail, error: unknown): void {
    const { log, unclear } = this.#options;
    const code = errorCode(error) ?? '';
    const advice = LIMITS[code];
    if (advice === undefined) this.#failedOnPath(jail, error);
    else if (this.#hasAllWatches) log.error(advice);
    if (advice !== undefined) this.#hasAllWatches = false;
    // Without watches, rounds of scans cover all; any other trouble hid something in this jail alone.
    if (code !== 'ENOSPC') unclear(jail);
  }

  /** Of a name of 255 bytes that are not UTF-8, say: in UTF-8 it is longer than a name may be. */
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
    setTimeout(tellOthers, QUIET).unref();
  }
}
