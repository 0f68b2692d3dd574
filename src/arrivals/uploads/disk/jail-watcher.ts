/**
 * Watches one jail with chokidar for changes that no session explains. It only reports paths to look at.
 *
 * Promise: a flood blocks the event loop for about 2,000 events at most. chokidar takes up to 45 µs for each, and Node
 * delivers all events that the kernel has before anything else runs. So a jail with a flood is not watched for a while,
 * and is compared with the disk instead.
 *
 * Each folder costs memory and one of the kernel's watches, which all jails share. A jail with very many folders is not
 * watched (`crowded`) but scanned.
 */
import { relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { watch } from 'chokidar';
import { lstatBeneath } from '../../../foundation/base/beneath.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { Flood } from './hint-loss.ts';

/** How many folders of one jail are watched at most. */
const FOLDERS = 1000;

/**
 * How many looks at one file are let through within a window, and its length in ms. chokidar asks once or twice for
 * each event.
 */
const LOOKS = 20;
const WINDOW_MS = 1000;

/** For how long after a folder was made or removed the count of folders may be wrong, in ms. */
const COUNT_AFTER_MS = 2000;

/** How long closing a watch may take, in ms. If folders are renamed all the time, chokidar may never finish. */
const CLOSE_TIMEOUT_MS = 5000;

/**
 * How long a jail is not watched after a flood, in ms. The pause doubles with each flood that follows soon, up to the
 * longest.
 */
const PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 60_000;
/**
 * The shortest pause, as a multiple of the time that starting the watch took: chokidar reads every file's status at the
 * start.
 */
const PAUSES_PER_START = 50;
/** How often the jail is compared with the disk during a pause, in ms. */
const COMPARE_MS = 10_000;

/** chokidar's replacement for bytes that are not UTF-8. */
const REPLACEMENT = '\u{fffd}';

// The recorder waits until files are stable. Users cannot make links, and none is followed.
const OPTIONS = { ignoreInitial: true, followSymlinks: false, atomic: false, ignorePermissionErrors: true };

export interface JailEvents {
  /** The kernel reported something. */
  heard(): void;
  changed(path: FilePath): void;
  missing(path: FilePath): void;
  /** A change cannot be attributed to a path, because the name is not UTF-8 or very many files changed. */
  unclear(): void;
  /** A folder appeared. Files may have been added to it before it was watched. */
  newFolder(): void;
  /** All existing folders are watched. */
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
export class PausingWatch implements JailWatch {
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
      // Changes during the pause cause no event.
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
    // chokidar cannot look at a name that is not UTF-8, and reports no other event for it.
    if (typeof name === 'string' && name.includes(REPLACEMENT)) events.unclear();
  });
  watcher.on('error', events.failed);
  return {
    folders: () => (performance.now() < countedFrom ? undefined : folders.size),
    async close() {
      isCrowded = true;
      hot.close();
      await Promise.race([watcher.close(), wait(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
    },
  };
}

/**
 * Limits looks at files that change all the time, such as a large upload under way: chokidar would look at such a file
 * some thousand times a second. After a few looks the file is ignored until the window ends, and then reported once, so
 * that no change is missed.
 */
class HotFiles {
  readonly #isFile: (path: string) => boolean;
  readonly #report: (path: string) => void;
  #looks = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param isFile whether a path is a file. A folder must not be ignored, because chokidar would ignore everything
   * below it, too.
   */
  constructor(isFile: (path: string) => boolean, report: (path: string) => void) {
    this.#isFile = isFile;
    this.#report = report;
  }

  /** Whether to ignore the file for now. */
  isHot(path: string): boolean {
    let count = (this.#looks.get(path) ?? 0) + 1;
    if (count === LOOKS + 1 && !this.#isFile(path)) count = -Infinity;
    this.#looks.set(path, count);
    this.#timer ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
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
