/**
 * Watches the jails with chokidar, for changes that no session explains. It only points at files: the settler looks
 * for itself.
 */
import { join, relative, sep } from 'node:path';
import { watch } from 'chokidar';
import { errorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { FilesRoot } from './batch.ts';

export interface WatcherOptions {
  readonly log: Log;
  /** The folder that holds all jails. */
  readonly jailDir: string;
  readonly filesRoot: FilesRoot;
  changed(username: string, path: Buffer): void;
  missing(username: string, path: Buffer): void;
  /** Something happened to a name that is not UTF-8, which cannot be told exactly. */
  unclear(username: string): void;
}

export interface Watcher {
  add(username: string): void;
  remove(username: string): void;
  /** False once the kernel has refused a watch: then not every change is seen. */
  complete(): boolean;
  close(): Promise<void>;
}

/** What chokidar makes of bytes that are not UTF-8. */
const REPLACEMENT = '\u{fffd}';

export function createWatcher(options: WatcherOptions): Watcher {
  const { log, jailDir, filesRoot } = options;
  let complete = true;
  // Nothing is waited for here: the settler lets files rest. Links cannot be made by users and are not followed.
  const watcher = watch([], {
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    ignorePermissionErrors: true,
  });

  function locate(path: string): { username: string; path: Buffer } | undefined {
    const [username, files, ...rest] = relative(jailDir, path).split(sep);
    return username && files === 'files' ? { username, path: Buffer.from(rest.join('/')) } : undefined;
  }

  function on(report: (username: string, path: Buffer) => void): (path: string) => void {
    return (path) => {
      const place = locate(path);
      if (place) report(place.username, place.path);
    };
  }

  watcher.on('add', on(options.changed));
  watcher.on('change', on(options.changed));
  watcher.on('unlink', on(options.missing));
  // A name that is not UTF-8 reaches us with bytes replaced, so chokidar cannot look at it and reports nothing else.
  watcher.on('raw', (_event, name: unknown, details: unknown) => {
    if (typeof name !== 'string' || !name.includes(REPLACEMENT)) return;
    const place = locate((details as { watchedPath: string }).watchedPath);
    if (place) options.unclear(place.username);
  });
  watcher.on('error', (error) => {
    const code = errorCode(error);
    if (code !== 'ENOSPC' && code !== 'EMFILE') return log.warn({ err: error }, 'the watcher failed on one path');
    if (complete) {
      log.error(
        code === 'ENOSPC'
          ? 'no inotify watches left: raise fs.inotify.max_user_watches (sysctl); until then slow scans find what changes'
          : 'no inotify instances or open files left: raise fs.inotify.max_user_instances or the limit of open files; until then slow scans find what changes',
      );
    }
    complete = false;
  });

  return {
    add: (username) => void watcher.add(filesRoot(username)),
    remove: (username) => void watcher.unwatch(filesRoot(username)),
    complete: () => complete,
    close: () => watcher.close(),
  };
}

/** Where the jails' files are: `<jails>/<username>/files`. */
export function jailFiles(jailDir: string): FilesRoot {
  return (username) => join(jailDir, username, 'files');
}
