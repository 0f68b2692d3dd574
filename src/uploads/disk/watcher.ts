/**
 * Which jails are watched. Up to a limit, all. With more directories than that, only those whose users have been here
 * most recently: changes by SFTP come through sessions, which the transfer log announces, and scans cover the others.
 */
import { LRUCache } from 'lru-cache';
import { errorCode } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { FilePath, FilesRoot } from '../file-path.ts';
import { type JailWatcher, watchJail } from './jail-watcher.ts';

export interface WatcherOptions {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  /** How many jails are watched at most. */
  readonly limit: number;
  changed(username: string, path: FilePath): void;
  missing(username: string, path: FilePath): void;
  /** Something happened in that jail that only a scan can tell. */
  unclear(username: string): void;
}

export interface Watcher {
  /** A round of scans begins, over that many directories. */
  begin(directories: number): void;
  /** A directory that a round has come to, or a new one: watched when there is room. */
  add(username: string): void;
  /** A session has begun: its directory is watched, if need be in place of the one whose session was longest ago. */
  use(username: string): void;
  remove(username: string): void;
  /** The jails that have too many folders to be watched. */
  crowded(): string[];
  /** A scan found the jail to have few folders. */
  thinned(username: string): void;
  /** Whether everybody is watched; crowded jails apart. */
  isComplete(): boolean;
  close(): Promise<void>;
}

const LIMITS: Record<string, string> = {
  ENOSPC:
    'no inotify watches left: raise fs.inotify.max_user_watches (sysctl); until then slow scans find what changes',
  EMFILE:
    'no inotify instances or open files left: raise fs.inotify.max_user_instances or the limit of open files; until then slow scans find what changes',
};

export function createWatcher({ log, filesRoot, limit, changed, missing, unclear }: WatcherOptions): Watcher {
  const closing = new Set<Promise<void>>();
  const crowded = new Set<string>();
  let hasAllWatches = true;
  let isLimited = false;
  let isSomeoneLeftOut = false;
  const watchers = new LRUCache<string, JailWatcher>({
    max: limit,
    dispose(watcher, _username, reason) {
      if (reason === 'evict') isSomeoneLeftOut = true;
      const closed = watcher.close().finally(() => closing.delete(closed));
      closing.add(closed);
    },
  });

  function failed(username: string, error: unknown): void {
    const code = errorCode(error) ?? '';
    const advice = LIMITS[code];
    if (advice === undefined) log.warn({ err: error, username }, 'the watcher failed on one path');
    else if (hasAllWatches) log.error(advice);
    if (advice !== undefined) hasAllWatches = false;
    // Without watches, rounds of scans cover all; of any other trouble only what it hid is missing.
    if (code !== 'ENOSPC') unclear(username);
  }

  function start(username: string): void {
    const watcher = watchJail(filesRoot(username), {
      changed: (path) => changed(username, path),
      missing: (path) => missing(username, path),
      unclear: () => unclear(username),
      failed: (error) => failed(username, error),
      crowded() {
        crowded.add(username);
        log.warn(
          { username },
          'too many folders to watch: scans find what changes in this directory without a session',
        );
        setImmediate(() => watchers.delete(username)); // the call comes from within it
        unclear(username);
      },
    });
    watchers.set(username, watcher);
  }

  return {
    begin(directories) {
      isLimited = directories > limit;
      isSomeoneLeftOut = false;
    },
    add(username) {
      if (crowded.has(username) || watchers.has(username)) return;
      if (isLimited || watchers.size >= limit || !hasAllWatches) isSomeoneLeftOut = true;
      else start(username);
    },
    use(username) {
      if (!crowded.has(username) && !watchers.get(username)) start(username);
    },
    remove(username) {
      crowded.delete(username);
      watchers.delete(username);
    },
    crowded: () => [...crowded],
    thinned(username) {
      if (crowded.delete(username)) start(username);
    },
    isComplete: () => !isSomeoneLeftOut && hasAllWatches,
    async close() {
      watchers.clear();
      await Promise.all(closing);
    },
  };
}
