/**
 * Compares directories with the disk: all of them at the start, and then in rounds at 1 % of a core. Only this
 * guarantees that every file is found, because hints may be lost. A single directory is scanned soon when something
 * about it is uncertain.
 *
 * Scans run one at a time, and a directory is not scanned too often, since a user can cause scans and make them long.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import PQueue from 'p-queue';
import type { Background, Loop } from '../../../foundation/base/background.ts';
import { yielder } from '../../../foundation/base/event-loop.ts';
import type { Log } from '../../../foundation/base/log.ts';
import type { Database } from '../../../foundation/db/database.ts';
import { type FilePath, jailFiles } from '../file-path.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { filesAfter } from '../record/files.ts';
import { scanDirectory } from './scan.ts';
import type { Watcher } from './watcher.ts';

/** How many directories are listed at once. */
const PAGE = 200;

/** How many findings are handed over at once at most. */
const LOT = 100;

/**
 * The time from the beginning of one round to that of the next, in ms. It is longer when 1 % of a core is not enough.
 */
const ROUND_MS = 3_600_000;

/**
 * The time between rounds when not everything is watched or hints were lost, and between scans of crowded directories,
 * in ms.
 */
const ROUND_PAUSE_MS = 60_000;

/** The length of a round's pause, as a multiple of the work before it. */
const PAUSES_PER_WORK = 99;
/** How much work comes before a pause, in ms. */
const WORK_MS = 1000;

/** The pause between scans of a directory whose users make folders, as a multiple of the last scan's time. */
const PAUSES_PER_NEW_FOLDER = 99;
/** The pause between requested scans of a directory, as a multiple of the last scan's time. */
const PAUSES_PER_REQUEST = 9;

/** The shortest wait before a requested scan, in ms. */
const REQUEST_PAUSE_MS = 1000;

/** The pause before a failed requested scan is tried again, in ms. */
const RETRY_MS = 10_000;

/** A file that differs from its row. */
interface Found {
  readonly jail: Jail;
  readonly path: FilePath;
  readonly isMissing: boolean;
}

export interface ScannerOptions {
  readonly log: Log;
  readonly background: Background;
  readonly database: Pick<Database, 'reads'>;
  readonly jailDir: string;
  readonly jails: Pick<JailQueries, 'after' | 'count' | 'byId'>;
  readonly watcher: Watcher;
  /** Takes findings. The scan waits until this resolves. */
  take(found: readonly Found[]): Promise<void>;
  tooDeep(jail: Jail): void;
  /** In place of `ROUND_PAUSE_MS`. */
  readonly roundPause?: number | undefined;
  /** In place of `ROUND_MS`. */
  readonly round?: number | undefined;
  /** In place of `PAUSES_PER_WORK`. */
  readonly pausesPerWork?: number | undefined;
}

interface Scanned {
  /** How long the scan took, in ms, without the waits for its findings to be taken. */
  readonly took: number;
  readonly hasFailed: boolean;
}

interface Request {
  /** When the scan is due, by the monotonic clock in ms. */
  readonly at: number;
  readonly timer: NodeJS.Timeout;
}

export class Scanner {
  readonly #options: ScannerOptions;
  /** Runs one scan at a time. */
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #requested = new Map<string, Request>();
  readonly #running = new Set<Promise<void>>();
  /** How long the last scan of a directory took, in ms. */
  readonly #costs = new LRUCache<string, number>({ max: 10_000 });
  readonly #stop = new AbortController();
  #rounds: Loop | undefined;
  /** When the next round is due even if everything is watched, by the monotonic clock in ms. */
  #nextRound = 0;
  /** Resolves when every directory has been scanned once. */
  readonly #covered = Promise.withResolvers<void>();

  constructor(options: ScannerOptions) {
    this.#options = options;
  }

  /**
   * Scans every directory once and has it watched, then scans all again in rounds. Resolves after the first round.
   * Further calls return the same promise.
   */
  coverAll(): Promise<void> {
    const { background, roundPause = ROUND_PAUSE_MS, round = ROUND_MS } = this.#options;
    const every = Math.min(roundPause, round);
    let isFirst = true;
    this.#rounds ??= background.start('scanning', { every, atOnce: true }, async () => {
      const isRound = isFirst || this.#isRoundDue();
      if (isRound) this.#nextRound = performance.now() + round;
      const work = await (isRound ? this.#round(isFirst) : this.#scanCrowded());
      isFirst = false;
      this.#covered.resolve();
      return Math.max(every, this.#pauseAfter(work));
    });
    return this.#covered.promise;
  }

  /** Hints of unknown directories were lost: makes the next round begin as soon as the current pause is over. */
  roundSoon(): void {
    this.#nextRound = 0;
  }

  /** Scans one directory soon. */
  request(directoryId: string): void {
    this.#requestAfter(directoryId, PAUSES_PER_REQUEST);
  }

  /**
   * Scans one directory soon, but less often than `request`. A folder has appeared, and the watcher may have missed
   * files in it.
   */
  requestForFolder(directoryId: string): void {
    this.#requestAfter(directoryId, PAUSES_PER_NEW_FOLDER);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#covered.resolve();
    await this.#rounds?.close();
    for (const { timer } of this.#requested.values()) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  #isRoundDue(): boolean {
    return !this.#options.watcher.isComplete() || performance.now() >= this.#nextRound;
  }

  /** How long rounds pause after this much work, in ms. */
  #pauseAfter(work: number): number {
    return (this.#options.pausesPerWork ?? PAUSES_PER_WORK) * work;
  }

  #scan(jail: Jail, priority = 0): Promise<Scanned> {
    return this.#queue.add(() => this.#scanNow(jail), { priority });
  }

  async #scanNow(jail: Jail): Promise<Scanned> {
    const { database, jailDir, log, take, tooDeep, watcher } = this.#options;
    const { signal } = this.#stop;
    const began = performance.now();
    let waited = 0;
    let found: Found[] = [];
    const handOver = async (): Promise<void> => {
      const lot = found;
      found = [];
      const since = performance.now();
      if (lot.length > 0) await take(lot);
      waited += performance.now() - since;
    };
    const find = async (path: FilePath, isMissing: boolean): Promise<void> => {
      if (found.push({ jail, path, isMissing }) >= LOT) await handOver();
    };
    let hasFailed = false;
    try {
      const folders = await scanDirectory({
        root: jailFiles(jailDir)(jail.sftp_username),
        filesAfter: (after, limit) => filesAfter.all(database.reads, { directory: jail.id, after, limit }),
        differs: (path) => find(path, false),
        missing: (path) => find(path, true),
        tooDeep: () => tooDeep(jail),
        signal,
      });
      if (!signal.aborted) watcher.scanned(jail, folders);
    } catch (error) {
      hasFailed = true;
      log.error({ err: error, directory: jail.id }, 'cannot scan a directory');
    }
    await handOver();
    const took = performance.now() - began - waited;
    this.#costs.set(jail.id, took);
    return { took, hasFailed };
  }

  /** Scans all directories. Returns the work since the last pause, in ms. */
  async #round(isFirst: boolean): Promise<number> {
    const { jails, watcher } = this.#options;
    watcher.begin(await jails.count());
    const pause = yielder();
    let work = 0;
    let after = '';
    while (!this.#stop.signal.aborted) {
      const page = await jails.after(after, PAGE);
      if (page.length === 0) break;
      // Watch the jails before they are scanned, so that no change falls in between.
      for (const jail of page) {
        watcher.add(jail);
        await pause();
      }
      for (const jail of page) {
        if (this.#stop.signal.aborted) break;
        work += (await this.#scan(jail)).took;
        after = jail.id;
        if (isFirst || work < WORK_MS) continue;
        await this.#pause(this.#pauseAfter(work));
        work = 0;
        // The other directories of the page may be gone by now.
        break;
      }
    }
    return work;
  }

  async #scanCrowded(): Promise<number> {
    let work = 0;
    for (const { id } of this.#options.watcher.crowded()) {
      const jail = this.#stop.signal.aborted ? undefined : await this.#options.jails.byId(id);
      if (jail) work += (await this.#scan(jail)).took;
    }
    return work;
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stop.signal, ref: false }).catch(() => undefined);
  }

  /** Scans a directory. Returns false when that failed; a deleted directory counts as scanned. */
  async #scanOne(id: string): Promise<boolean> {
    const jail = this.#stop.signal.aborted ? undefined : await this.#options.jails.byId(id);
    if (!jail) return true;
    return !(await this.#scan(jail, 1)).hasFailed;
  }

  #requestAfter(id: string, pausesPerWork: number): void {
    const cost = this.#costs.get(id) ?? 0;
    this.#requestIn(id, Math.max(REQUEST_PAUSE_MS, pausesPerWork * cost));
  }

  #requestIn(id: string, pause: number): void {
    if (this.#stop.signal.aborted) return;
    const at = performance.now() + pause;
    const before = this.#requested.get(id);
    if (before && before.at <= at) return;
    clearTimeout(before?.timer);
    const timer = setTimeout(() => this.#begin(id), pause).unref();
    this.#requested.set(id, { at, timer });
  }

  #begin(id: string): void {
    this.#requested.delete(id); // a request from now on needs a scan of its own
    const running = this.#scanRequested(id).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #scanRequested(id: string): Promise<void> {
    try {
      if (!(await this.#scanOne(id))) this.#requestIn(id, RETRY_MS);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#options.log.error({ err: error, directory: id }, 'cannot scan a directory, trying again');
      this.#requestIn(id, RETRY_MS);
    }
  }
}
