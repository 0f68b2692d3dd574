/**
 * Watches one jail with chokidar, for changes that no session explains. It only points at files.
 *
 * Each folder costs one of the kernel's watches, which all jails share, and memory: a jail with very many is given up
 * (`isCrowded`), and scanned instead.
 */
import { relative } from 'node:path';
import { watch } from 'chokidar';
import { lstatBeneath } from '../../beneath.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { createHotFiles } from './hot-files.ts';

/** Folders of one jail that are watched. */
const FOLDERS = 1000;

export interface JailEvents {
  changed(path: FilePath): void;
  missing(path: FilePath): void;
  /** Something happened that cannot be told exactly: to a name that is not UTF-8, or while it could not look. */
  unclear(): void;
  failed(error: unknown): void;
  /** There are too many folders. */
  crowded(): void;
}

export interface JailWatcher {
  close(): Promise<void>;
}

/** What chokidar makes of bytes that are not UTF-8. */
const REPLACEMENT = '\u{fffd}';

// The ledger lets files rest. Links cannot be made by users and are not followed.
const OPTIONS = { ignoreInitial: true, followSymlinks: false, atomic: false, ignorePermissionErrors: true };

export function watchJail(root: string, events: JailEvents): JailWatcher {
  const folders = new Set<string>();
  let isCrowded = false;

  const below = (path: string): FilePath => pathOf(Buffer.from(relative(root, path)));
  const report = (to: (path: FilePath) => void) => (path: string) => {
    if (path !== root) to(below(path));
  };
  const isFile = (path: string): boolean => lstatBeneath(root, bytesOf(below(path)))?.isFile() ?? false;
  const hot = createHotFiles(isFile, report(events.changed));

  function isIgnored(path: string, isFolder: boolean): boolean {
    if (path === root) return false;
    if (isCrowded) return true;
    if (!isFolder) return hot.isHot(path);
    folders.add(path);
    if (folders.size <= FOLDERS) return false;
    isCrowded = true;
    events.crowded();
    return true;
  }

  const watcher = watch(root, {
    ...OPTIONS,
    ignored: (path, stats) => isIgnored(path, stats?.isDirectory() ?? false),
  });
  watcher.on('add', report(events.changed));
  watcher.on('change', report(events.changed));
  watcher.on('unlink', report(events.missing));
  watcher.on('unlinkDir', (path) => void folders.delete(path));
  // A name that is not UTF-8 reaches us with bytes replaced, so chokidar cannot look at it and reports nothing else.
  watcher.on('raw', (_event, name: unknown) => {
    if (typeof name === 'string' && name.includes(REPLACEMENT)) events.unclear();
  });
  watcher.on('error', events.failed);
  return {
    async close() {
      isCrowded = true;
      hot.close();
      await watcher.close();
    },
  };
}
