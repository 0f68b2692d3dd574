/**
 * Watches one jail with chokidar, for changes that no session explains. It only points at files.
 *
 * Promise: a flood of events holds up the event loop for some 2,000 of them. chokidar takes up to 45 µs for each, and Node hands over all that
 * the kernel has before anything else runs, so a jail that floods is not watched for a while, and compared with the disk.
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

/** How long a jail that floods is not watched, in ms: twice as long each time that it does so again soon. */
const PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 60_000;
/** Nor shorter than so many times what it took to watch every folder, since chokidar looks at every file then. */
const PAUSES_PER_START = 50;
/** How often it is compared meanwhile, in ms. */
const COMPARE_MS = 10_000;

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

/** Watches until it is closed, with a pause after each flood. */
export function watchJail(root: string, events: JailEvents): JailWatch {
  return new PausingWatch(root, events);
}

class PausingWatch implements JailWatch {
  readonly #root: string;
  readonly #events: JailEvents;
  #watch: JailWatch | undefined;
  #closed: Promise<void> = Promise.resolve();
  #pauseMs = 0;
  #resumedAt = Number.NEGATIVE_INFINITY;
  /** How long it took until every folder was watched, in ms. */
  #startMs = 0;
  #resuming: NodeJS.Timeout | undefined;
  #comparing: NodeJS.Timeout | undefined;

  constructor(root: string, events: JailEvents) {
    this.#root = root;
    this.#events = events;
    this.#start(events.ready);
  }

  folders(): number | undefined {
    return this.#watch?.folders();
  }

  async close(): Promise<void> {
    clearTimeout(this.#resuming);
    clearInterval(this.#comparing);
    await Promise.all([this.#closed, this.#watch?.close()]);
  }

  #start(ready: () => void): void {
    const began = performance.now();
    const flood = new Flood(() => this.#pause());
    this.#watch = watchFolders(this.#root, {
      ...this.#events,
      heard: () => {
        this.#events.heard();
        flood.heard();
      },
      ready: () => {
        this.#startMs = performance.now() - began;
        ready();
      },
    });
  }

  #pause(): void {
    const isAgain = performance.now() - this.#resumedAt < LONGEST_PAUSE_MS;
    this.#pauseMs = isAgain ? Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS) : PAUSE_MS;
    const ms = Math.max(this.#pauseMs, PAUSES_PER_START * this.#startMs);
    const { unclear } = this.#events;
    this.#closed = Promise.all([this.#closed, this.#watch?.close()]).then(() => undefined);
    this.#watch = undefined;
    this.#comparing = setInterval(unclear, COMPARE_MS).unref();
    this.#resuming = setTimeout(() => {
      clearInterval(this.#comparing);
      this.#resumedAt = performance.now();
      // What happened in the pause has no other sign.
      this.#start(unclear);
    }, ms).unref();
  }
}

/** One watch of all folders. */
function watchFolders(root: string, events: JailEvents): JailWatch {
  const folders = new Set<string>();
  let isCrowded = false;
  let countedFrom = Number.POSITIVE_INFINITY;

  const below = (path: string): FilePath => pathOf(Buffer.from(relative(root, path)));
  const report = (to: (path: FilePath) => void) => (path: string) => {
    if (path !== root) to(below(path));
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
    // chokidar cannot look at a name that is not UTF-8, and reports nothing else of it.
    if (typeof name === 'string' && name.includes(REPLACEMENT)) events.unclear();
  });
  watcher.on('error', events.failed);
  return {
    folders: () => (performance.now() < countedFrom ? undefined : folders.size),
    async close() {
      isCrowded = true;
      hot.close();
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
