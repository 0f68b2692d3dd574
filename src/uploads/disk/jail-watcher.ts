/**
 * Watches one jail with chokidar, for changes that no session explains. It only points at files.
 *
 * Each folder costs one of the kernel's watches, which all jails share, and memory: a jail with very many is given up
 * (`crowded`), and scanned instead.
 */
import { relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { watch } from 'chokidar';
import { lstatBeneath } from '../../beneath.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { Flood } from './hint-loss.ts';

/** Folders of one jail that are watched. */
const FOLDERS = 1000;

/** Looks at one file within a window, in ms, that are let through; chokidar asks once or twice for each event. */
const LOOKS = 20;
const WINDOW = 1000;

/** Folders that were made or removed within this time, in ms, may not be counted yet. */
const COUNT_AFTER_MS = 2000;

/** How long a watch may take to end, in ms: folders that change places all the time can keep chokidar at it for ever. */
const CLOSE_PATIENCE = 5000;

/** What chokidar makes of bytes that are not UTF-8. */
const REPLACEMENT = '\u{fffd}';

// The ledger lets files rest. Users cannot make links, and none is followed.
const OPTIONS = { ignoreInitial: true, followSymlinks: false, atomic: false, ignorePermissionErrors: true };

export interface JailEvents {
  /** The kernel reported something. */
  heard(): void;
  changed(path: FilePath): void;
  missing(path: FilePath): void;
  /** Something happened that cannot be told exactly: to a name that is not UTF-8, or to very many files. */
  unclear(): void;
  /** A folder appeared: files may have come into it before it was watched. */
  newFolder(): void;
  /** Every folder that was there is watched. */
  ready(): void;
  failed(error: unknown): void;
  /** There are too many folders. */
  crowded(): void;
}

export interface JailWatch {
  /** How many folders are watched below the jail's own; undefined while that changes. */
  folders(): number | undefined;
  close(): Promise<void>;
}

export function watchJail(root: string, events: JailEvents): JailWatch {
  const folders = new Set<string>();
  let isCrowded = false;
  let countedFrom = Number.POSITIVE_INFINITY;
  const flood = new Flood(events.unclear);

  const below = (path: string): FilePath => pathOf(Buffer.from(relative(root, path)));
  const report = (to: (path: FilePath) => void) => (path: string) => {
    if (path !== root && !flood.isOn) to(below(path));
  };
  const foldersChange = (): void => void (countedFrom = performance.now() + COUNT_AFTER_MS);
  const isFile = (path: string): boolean => lstatBeneath(root, bytesOf(below(path)))?.isFile() ?? false;
  const hot = new HotFiles(isFile, report(events.changed));

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
  watcher.on('addDir', () => {
    foldersChange();
    events.newFolder();
  });
  watcher.on('unlinkDir', (path) => {
    foldersChange();
    folders.delete(path);
  });
  watcher.on('ready', () => {
    foldersChange();
    events.ready();
  });
  watcher.on('raw', (_event, name: unknown) => {
    events.heard();
    flood.heard();
    // chokidar cannot look at a name that is not UTF-8, and reports nothing else of it.
    if (typeof name === 'string' && name.includes(REPLACEMENT)) events.unclear();
  });
  watcher.on('error', events.failed);
  return {
    folders: () => (performance.now() < countedFrom ? undefined : folders.size),
    async close() {
      isCrowded = true;
      hot.close();
      flood.close();
      await Promise.race([watcher.close(), wait(CLOSE_PATIENCE, undefined, { ref: false })]);
    },
  };
}

/**
 * Files that change all the time, such as a large upload under way: chokidar would look at one some thousand times a
 * second. Beyond a few looks it is left alone, and reported once when the window is over, so that no change is missed.
 */
class HotFiles {
  readonly #isFile: (path: string) => boolean;
  readonly #report: (path: string) => void;
  #looks = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /** @param isFile tells folders apart, which are never left alone: chokidar asks for them with all below. */
  constructor(isFile: (path: string) => boolean, report: (path: string) => void) {
    this.#isFile = isFile;
    this.#report = report;
  }

  /** Whether to leave that file alone now. */
  isHot(path: string): boolean {
    let count = (this.#looks.get(path) ?? 0) + 1;
    if (count === LOOKS + 1 && !this.#isFile(path)) count = -Infinity;
    this.#looks.set(path, count);
    this.#timer ??= setTimeout(() => this.#endWindow(), WINDOW).unref();
    return count > LOOKS;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #endWindow(): void {
    const looks = this.#looks;
    this.#looks = new Map();
    this.#timer = undefined;
    for (const [path, count] of looks) if (count > LOOKS) this.#report(path);
  }
}
