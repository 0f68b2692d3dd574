/**
 * Compares directories with the disk. All of them at the start, and from then on in rounds at 1 % of a core: hints
 * may be lost, and only this guarantees that every file is found. A single directory soon when something about it is
 * not certain. One at a time, and the same directory not too often, since a user can cause a scan and make it long.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import PQueue from 'p-queue';
import type { Background, Loop } from '../../background.ts';
import { yielder } from '../../event-loop.ts';
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { ScanThread, type ScanThreadOptions } from './scan-thread.ts';
import type { Scanned } from './scan-worker.ts';
import type { Watcher } from './watcher.ts';

/** Directories that are handed to the thread at once: at the start, and in a round, where requested ones come between. */
const FIRST_PAGE = 200;
const PAGE = 20;

/** From the beginning of one round to that of the next, in ms; longer when 1 % of a core is not enough for it. */
const ROUND_MS = 3_600_000;

/** … and when not everything is watched or hints were lost, and between scans of crowded directories. */
const ROUND_PAUSE_MS = 60_000;

/** A round rests so many times as long as it works, … */
const RESTS_PER_WORK = 99;
/** … each time that it has worked this long, in ms: the thread ends meanwhile, and to start it is work, too. */
const WORK_MS = 1000;
const START_MS = 200;

/** Between scans of a directory whose users make folders. */
const RESTS_PER_NEW_FOLDER = 99;
/** Between requested scans of a directory: something about it is not certain. */
const RESTS_PER_REQUEST = 9;

/** A requested scan waits at least this long, in ms, and longer after one of that directory that took long. */
const REQUEST_PAUSE_MS = 1000;

/** Between tries of a requested scan that could not be done, in ms. */
const RETRY_MS = 10_000;

export interface ScannerOptions extends ScanThreadOptions {
  readonly log: Log;
  readonly background: Background;
  readonly jails: Pick<JailQueries, 'after' | 'count' | 'byId'>;
  readonly watcher: Watcher;
  /** In place of `ROUND_PAUSE_MS`. */
  readonly roundPause?: number | undefined;
  /** In place of `ROUND_MS`. */
  readonly round?: number | undefined;
  /** In place of `RESTS_PER_WORK`. */
  readonly restsPerWork?: number | undefined;
}

interface Request {
  /** When it is due, by the monotonic clock. */
  readonly at: number;
  readonly timer: NodeJS.Timeout;
}

export class Scanner {
  readonly #options: ScannerOptions;
  readonly #thread: ScanThread;
  /** Scans wait for each other. */
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #requested = new Map<string, Request>();
  readonly #running = new Set<Promise<void>>();
  /** How long the last scan of a directory took, in ms. */
  readonly #costs = new LRUCache<string, number>({ max: 10_000 });
  readonly #stop = new AbortController();
  #rounds: Loop | undefined;
  /** When the next round is due although everything is watched, by the monotonic clock. */
  #nextRound = 0;
  /** Resolves when every directory has been scanned once. */
  readonly #covered = Promise.withResolvers<void>();

  constructor(options: ScannerOptions) {
    this.#options = options;
    this.#thread = new ScanThread(options);
  }

  /**
   * Scans every directory once and has it watched, then again and again. A further call waits for the same.
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
      return Math.max(every, this.#restAfter(work));
    });
    return this.#covered.promise;
  }

  /** Hints were lost, of whichever directory: the next round begins as soon as the one before has rested. */
  roundSoon(): void {
    this.#nextRound = 0;
  }

  /** Scans one directory soon. */
  request(directoryId: string): void {
    this.#requestAfter(directoryId, RESTS_PER_REQUEST);
  }

  /** Scans one directory soon, but less often: a folder has appeared, and the watcher may have missed what is in it. */
  requestForFolder(directoryId: string): void {
    this.#requestAfter(directoryId, RESTS_PER_NEW_FOLDER);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#covered.resolve();
    const closed = this.#thread.close();
    await this.#rounds?.close();
    for (const { timer } of this.#requested.values()) clearTimeout(timer);
    await Promise.all(this.#running);
    await closed;
  }

  #isRoundDue(): boolean {
    return !this.#options.watcher.isComplete() || performance.now() >= this.#nextRound;
  }

  /** How long rounds rest after so much work, in ms. */
  #restAfter(work: number): number {
    return work === 0 ? 0 : (this.#options.restsPerWork ?? RESTS_PER_WORK) * (work + START_MS);
  }

  async #scan(jails: readonly Jail[], priority = 0): Promise<readonly Scanned[]> {
    const { log, watcher } = this.#options;
    const scanned = await this.#queue.add(() => this.#thread.scan(jails), { priority });
    for (const { jail, folders, took, failure } of scanned) {
      this.#costs.set(jail.id, took);
      if (failure !== undefined) log.error({ directory: jail.id, reason: failure }, 'cannot scan a directory');
      else watcher.scanned(jail, folders);
    }
    return scanned;
  }

  /** Returns how long it has worked since it rested last, in ms. */
  async #round(isFirst: boolean): Promise<number> {
    const { jails, watcher } = this.#options;
    watcher.begin(await jails.count());
    const pause = yielder();
    const size = isFirst ? FIRST_PAGE : PAGE;
    let work = 0;
    let after: string | undefined = '';
    while (after !== undefined && !this.#stop.signal.aborted) {
      const page: Jail[] = await jails.after(after, size);
      // Watched before they are looked at, so that nothing falls in between.
      for (const jail of page) {
        watcher.add(jail);
        await pause();
      }
      if (page.length > 0) work += await this.#worked(page);
      after = page.at(-1)?.id;
      if (!isFirst && after !== undefined && work >= WORK_MS) {
        await this.#rest(this.#restAfter(work));
        work = 0;
      }
    }
    return work;
  }

  async #scanCrowded(): Promise<number> {
    let work = 0;
    for (const { id } of this.#options.watcher.crowded()) {
      const jail = this.#stop.signal.aborted ? undefined : await this.#options.jails.byId(id);
      if (jail) work += await this.#worked([jail]);
    }
    return work;
  }

  /** Scans these. Returns how long that took, in ms, without waiting for others. */
  async #worked(jails: readonly Jail[]): Promise<number> {
    const scanned = await this.#scan(jails);
    return scanned.reduce((sum, { took }) => sum + took, 0);
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stop.signal, ref: false }).catch(() => undefined);
  }

  /** Returns whether it could be scanned, if it has not been deleted. */
  async #scanOne(id: string): Promise<boolean> {
    const jail = this.#stop.signal.aborted ? undefined : await this.#options.jails.byId(id);
    if (!jail) return true;
    const [scanned] = await this.#scan([jail], 1);
    return scanned?.failure === undefined;
  }

  #requestAfter(id: string, restsPerWork: number): void {
    const cost = this.#costs.get(id) ?? 0;
    this.#requestIn(id, Math.max(REQUEST_PAUSE_MS, restsPerWork * cost));
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
    this.#requested.delete(id); // what happens from now on needs a scan of its own
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
