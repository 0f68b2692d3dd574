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
import type { UploadQueries } from '../queries.ts';
import type { Place } from '../record/ledger.ts';
import { createScanThread, type ScanThreadOptions } from './scan-thread.ts';
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
  readonly queries: Pick<UploadQueries, 'directoriesAfter' | 'directoryCount' | 'directoryById' | 'directoryOf'>;
  readonly watcher: Watcher;
  /** What the log said of that directory up to that moment has been looked for. */
  scanned(place: Place, upTo: number): void;
  now(): number;
  /** Between rounds while not everything is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
}

export interface Scanner {
  /** Scans every directory once and has it watched. */
  coverAll(): Promise<void>;
  /** Scans one directory soon. */
  request(directoryId: string): void;
  close(): Promise<void>;
}

export function createScanner(options: ScannerOptions): Scanner {
  const { log, queries, watcher, roundPause = ROUND_PAUSE } = options;
  const thread = createScanThread(options);
  const stop = new AbortController();
  /** Scans wait for each other. */
  const queue = new PQueue({ concurrency: 1 });
  const requested = new Map<string, Promise<void>>();
  /** What the last scan of a directory took, in ms. */
  const costs = new LRUCache<string, number>({ max: 10_000 });

  async function scan(places: readonly Place[]): Promise<readonly Scanned[]> {
    const began = options.now();
    const scanned = await queue.add(() => thread.scan(places));
    for (const { place, folders, took, failure } of scanned) {
      costs.set(place.id, took);
      if (failure !== undefined) log.error({ directory: place.id, reason: failure }, 'cannot scan a directory');
      else options.scanned(place, began);
      if (failure === undefined && folders < FEW_FOLDERS) watcher.thinned(place.sftp_username);
    }
    return scanned;
  }

  async function round(): Promise<void> {
    watcher.begin(await queries.directoryCount());
    const pause = yielder();
    let after: string | undefined = '';
    while (after !== undefined && !stop.signal.aborted) {
      const page: Place[] = await queries.directoriesAfter(after, PAGE);
      // Watched before they are looked at, so that nothing falls in between.
      for (const place of page) {
        watcher.add(place.sftp_username);
        await pause();
      }
      if (page.length > 0) await scan(page);
      after = page.at(-1)?.id;
    }
  }

  async function scanCrowded(): Promise<void> {
    for (const username of watcher.crowded()) {
      const place = await queries.directoryOf(username);
      if (place) await scan([place]);
    }
  }

  async function timed(work: () => Promise<void>): Promise<number> {
    const began = performance.now();
    await work();
    return Math.max(roundPause, RESTS_PER_WORK * (performance.now() - began));
  }

  async function scanAfter(id: string, pause: number): Promise<void> {
    await setTimeout(pause, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
    requested.delete(id); // what happens from now on needs a scan of its own
    const place = stop.signal.aborted ? undefined : await queries.directoryById(id);
    if (!place) return;
    const [scanned] = await scan([place]);
    if (scanned?.failure !== undefined) later(id, RETRY_PAUSE);
  }

  function later(id: string, pause: number): void {
    if (requested.has(id) || stop.signal.aborted) return;
    const scanning = scanAfter(id, pause).catch((error: unknown) => {
      if (stop.signal.aborted) return;
      log.error({ err: error, directory: id }, 'cannot scan a directory, trying again');
      later(id, RETRY_PAUSE);
    });
    requested.set(id, scanning);
  }

  let rounds: Loop | undefined;
  const first = Promise.withResolvers<void>();
  return {
    coverAll() {
      let isFirst = true;
      rounds ??= options.background.start('scanning', { every: roundPause, atOnce: true }, async () => {
        const wait = await timed(isFirst || !watcher.isComplete() ? round : scanCrowded);
        isFirst = false;
        first.resolve();
        return wait;
      });
      return first.promise;
    },
    request: (id) => later(id, Math.max(REQUEST_PAUSE, RESTS_PER_WORK * (costs.get(id) ?? 0))),
    async close() {
      stop.abort();
      first.resolve();
      const closed = thread.close();
      await rounds?.close();
      await Promise.all(requested.values());
      await closed;
    },
  };
}
