/**
 * Watches the jails with chokidar, for changes that no session explains. It only points at files: the settler looks
 * for itself.
 */
import { relative } from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { errorCode } from '../errors.ts';
import { lstatBeneath } from '../beneath.ts';
import type { Log } from '../log.ts';
import type { FilesRoot } from './batch.ts';
import { createHotFiles, type HotFiles } from './hot-files.ts';

export interface WatcherOptions {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  changed(username: string, path: Buffer): void;
  missing(username: string, path: Buffer): void;
  /** Something happened that cannot be told exactly: to a name that is not UTF-8, or while the watcher could not look. */
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

// Nothing is waited for here: the settler lets files rest. Links cannot be made by users and are not followed.
const OPTIONS = { ignoreInitial: true, followSymlinks: false, atomic: false, ignorePermissionErrors: true };

/**
 * A chokidar of its own for each jail: taking a path out of a shared one walks over all others, and is remembered for
 * ever and held against each later event.
 */
export function createWatcher(options: WatcherOptions): Watcher {
  const { log, filesRoot } = options;
  const watchers = new Map<string, { readonly watcher: FSWatcher; readonly hot: HotFiles }>();
  const closing = new Set<Promise<void>>();
  let complete = true;

  function start(username: string): { watcher: FSWatcher; hot: HotFiles } {
    const root = filesRoot(username);
    const below = (path: string): Buffer => Buffer.from(relative(root, path));
    const on = (report: (username: string, path: Buffer) => void) => (path: string) => {
      if (path !== root) report(username, below(path));
    };
    const isFile = (path: string): boolean => lstatBeneath(root, below(path))?.isFile() ?? false;
    const hot = createHotFiles(isFile, on(options.changed));
    const watcher = watch(root, { ...OPTIONS, ignored: (path) => path !== root && hot.isHot(path) });
    watcher.on('add', on(options.changed));
    watcher.on('change', on(options.changed));
    watcher.on('unlink', on(options.missing));
    // A name that is not UTF-8 reaches us with bytes replaced, so chokidar cannot look at it and reports nothing else.
    watcher.on('raw', (_event, name: unknown) => {
      if (typeof name === 'string' && name.includes(REPLACEMENT)) options.unclear(username);
    });
    watcher.on('error', (error) => {
      failed(error);
      // Without watches, rounds of scans cover all; of any other trouble only what it hid is missing.
      if (errorCode(error) !== 'ENOSPC') options.unclear(username);
    });
    return { watcher, hot };
  }

  function failed(error: unknown): void {
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
  }

  function remove(username: string): void {
    const started = watchers.get(username);
    if (!started) return;
    watchers.delete(username);
    started.hot.close();
    const closed = started.watcher.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  return {
    add(username) {
      if (!watchers.has(username)) watchers.set(username, start(username));
    },
    remove,
    complete: () => complete,
    async close() {
      for (const username of watchers.keys()) remove(username);
      await Promise.all(closing);
    },
  };
}
