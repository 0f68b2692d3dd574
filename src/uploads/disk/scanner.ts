/**
 * Scans of whole directories: all of them at the start and, while the watcher cannot see everything, again and again;
 * crowded ones likewise; a single one when something about it is not certain. One at a time, and the same directory not
 * too often, since a user can cause a scan and make it long.
 */
import { setTimeout } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import PQueue from 'p-queue';
import type { Background, Loop } from '../../background.ts';
import { yielder } from '../../event-loop.ts';
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { ScanThread, type ScanThreadOptions } from './scan-thread.ts';
import type { Scanned } from './scan-worker.ts';
import type { Watcher } from './watcher.ts';

const PAGE = 200;

/** Between rounds while not everything is watched, and between scans of crowded directories, in ms. */
const ROUND_PAUSE = 60_000;

/** … but at least this many times as long as the last one took: scans compete with the uploads. */
const RESTS_PER_WORK = 9;

/** Between tries of a requested scan that could not be done, in ms. */
const RETRY_PAUSE = 10_000;

/** A requested scan waits at least this long, in ms, and longer after one of that directory that took long. */
const REQUEST_PAUSE = 1000;

/** A crowded jail with fewer folders than this is watched again. */
const FEW_FOLDERS = 500;

export interface ScannerOptions extends ScanThreadOptions {
  readonly log: Log;
  readonly background: Background;
  readonly jails: Pick<JailQueries, 'after' | 'count' | 'byId'>;
  readonly watcher: Watcher;
  /** In place of `ROUND_PAUSE`, in ms. */
  readonly roundPause?: number | undefined;
}

export class Scanner {
  readonly #options: ScannerOptions;
  readonly #thread: ScanThread;
  /** Scans wait for each other. */
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #requested = new Map<string, Promise<void>>();
  /** How long the last scan of a directory took, in ms. */
  readonly #costs = new LRUCache<string, number>({ max: 10_000 });
  readonly #stop = new AbortController();
  #rounds: Loop | undefined;
  /** Resolves when every directory has been scanned once. */
  readonly #covered = Promise.withResolvers<void>();

  constructor(options: ScannerOptions) {
    this.#options = options;
    this.#thread = new ScanThread(options);
  }

  /**
   * Scans every directory once and has it watched; then again and again what the watcher cannot see. A further call waits
   * for the same.
   */
  coverAll(): Promise<void> {
    const { background, watcher, roundPause = ROUND_PAUSE } = this.#options;
    let isFirst = true;
    this.#rounds ??= background.start('scanning', { every: roundPause, atOnce: true }, async () => {
      const began = performance.now();
      await (isFirst || !watcher.isComplete() ? this.#round() : this.#scanCrowded());
      isFirst = false;
      this.#covered.resolve();
      return Math.max(roundPause, RESTS_PER_WORK * (performance.now() - began));
    });
    return this.#covered.promise;
  }

  /** Scans one directory soon. */
  request(directoryId: string): void {
    const cost = this.#costs.get(directoryId) ?? 0;
    this.#requestIn(directoryId, Math.max(REQUEST_PAUSE, RESTS_PER_WORK * cost));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#covered.resolve();
    const closed = this.#thread.close();
    await this.#rounds?.close();
    await Promise.all(this.#requested.values());
    await closed;
  }

  async #scan(jails: readonly Jail[]): Promise<readonly Scanned[]> {
    const { log, watcher } = this.#options;
    const scanned = await this.#queue.add(() => this.#thread.scan(jails));
    for (const { jail, folders, took, failure } of scanned) {
      this.#costs.set(jail.id, took);
      if (failure !== undefined) log.error({ directory: jail.id, reason: failure }, 'cannot scan a directory');
      else if (folders < FEW_FOLDERS) watcher.thinned(jail);
    }
    return scanned;
  }

  async #round(): Promise<void> {
    const { jails, watcher } = this.#options;
    watcher.begin(await jails.count());
    const pause = yielder();
    let after: string | undefined = '';
    while (after !== undefined && !this.#stop.signal.aborted) {
      const page: Jail[] = await jails.after(after, PAGE);
      // Watched before they are looked at, so that nothing falls in between.
      for (const jail of page) {
        watcher.add(jail);
        await pause();
      }
      if (page.length > 0) await this.#scan(page);
      after = page.at(-1)?.id;
    }
  }

  async #scanCrowded(): Promise<void> {
    for (const { id } of this.#options.watcher.crowded()) await this.#scanOne(id);
  }

  /** Returns whether it could be scanned, if it has not been deleted. */
  async #scanOne(id: string): Promise<boolean> {
    const jail = this.#stop.signal.aborted ? undefined : await this.#options.jails.byId(id);
    if (!jail) return true;
    const [scanned] = await this.#scan([jail]);
    return scanned?.failure === undefined;
  }

  #requestIn(id: string, pause: number): void {
    if (this.#requested.has(id) || this.#stop.signal.aborted) return;
    this.#requested.set(id, this.#scanIn(id, pause));
  }

  async #scanIn(id: string, pause: number): Promise<void> {
    const { signal } = this.#stop;
    await setTimeout(pause, undefined, { signal, ref: false }).catch(() => undefined);
    this.#requested.delete(id); // what happens from now on needs a scan of its own
    try {
      if (!(await this.#scanOne(id))) this.#requestIn(id, RETRY_PAUSE);
    } catch (error) {
      if (signal.aborted) return;
      this.#options.log.error({ err: error, directory: id }, 'cannot scan a directory, trying again');
      this.#requestIn(id, RETRY_PAUSE);
    }
  }
}
