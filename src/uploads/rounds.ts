/**
 * Scans of whole directories: all of them at the start and, while the watcher cannot see everything, again and again;
 * a single one when something about it is not certain. One at a time, and the same directory not too often, since a
 * user can cause a scan and make it long.
 */
import { setTimeout } from 'node:timers/promises';
import type { Log } from '../log.ts';
import type { FilesRoot } from './batch.ts';
import { createInTurn } from './in-turn.ts';
import type { UploadQueries } from './queries.ts';
import { scanDirectory } from './scan.ts';
import { type ScanThread, startScanThread } from './scan-thread.ts';
import type { ScanWorkerData } from './scan-worker.ts';
import type { Place, Settler } from './settle.ts';
import { turns } from './turns.ts';
import type { Watched } from './watched.ts';

const PAGE = 200;

/** Changes on their way to the database beyond which a scan waits. */
const BACKLOG = 1000;

/** From this many directories on, a round has a thread of its own; for fewer it costs more than it saves. */
const THREAD_FROM = 500;

const ROUND_PAUSE = 60_000;

/** … but at least this many times as long as the last round took: it competes with the uploads. */
const RESTS_PER_WORK = 9;

/** Between tries of a requested scan that could not be done, in ms. */
const RETRY_PAUSE = 10_000;

/** A requested scan waits at least this long, in ms, and ten times as long as the last one of that directory took. */
const REQUEST_PAUSE = 2000;

export interface RoundsOptions {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'directoriesAfter' | 'directoryCount' | 'directoryById' | 'filesAfter'>;
  readonly settler: Settler;
  readonly watched: Pick<Watched, 'begin' | 'add' | 'complete'>;
  /** What a thread that scans has to know. */
  readonly thread: ScanWorkerData;
  drained(left: number): Promise<void>;
  readonly signal: AbortSignal;
  /** Between rounds while not everything is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
  /** How many directories make a round that has a thread of its own. */
  readonly threadFrom?: number | undefined;
}

export interface Rounds {
  /** Scans every directory once and has it watched. */
  coverAll(): Promise<void>;
  /** Scans one directory soon. */
  request(directoryId: string): void;
  close(): Promise<void>;
}

export function createRounds(options: RoundsOptions): Rounds {
  const { log, queries, signal, watched, roundPause = ROUND_PAUSE, threadFrom = THREAD_FROM } = options;
  const requested = new Map<string, Promise<void>>();
  /** What the last scan of a directory cost, in ms. Only of those that were requested. */
  const costs = new Map<string, number>();
  /** Scans wait for each other. */
  const inTurn = createInTurn();
  let further: Promise<void> | undefined;

  const scanning = {
    filesRoot: options.filesRoot,
    settler: options.settler,
    breathe: () => options.drained(BACKLOG),
    tooDeep: ({ id }: Place) =>
      log.warn({ directory: id }, 'folders are nested too deeply; what lies below is not seen'),
    signal,
  };

  /** Returns what it cost, in ms. */
  const scan = (place: Place): Promise<number> =>
    inTurn(async () => {
      const began = performance.now();
      await scanDirectory({ ...scanning, queries }, place);
      return performance.now() - began;
    });

  function startThread(): ScanThread {
    return startScanThread({
      ...options.thread,
      ...scanning,
      log,
      failed: ({ id }, reason) => log.error({ directory: id, reason }, 'cannot scan a directory'),
    });
  }

  async function scanHere(places: readonly Place[]): Promise<void> {
    for (const place of places) {
      if (signal.aborted) return;
      await scan(place).catch((error: unknown) =>
        log.error({ err: error, directory: place.id }, 'cannot scan a directory'),
      );
    }
  }

  async function round(): Promise<void> {
    const directories = await queries.directoryCount();
    watched.begin(directories);
    await using thread = directories >= threadFrom ? startThread() : undefined;
    const breath = turns();
    let after: string | undefined = '';
    while (after !== undefined && !signal.aborted) {
      const page: Place[] = await queries.directoriesAfter(after, PAGE);
      // Watched before they are looked at, so that nothing falls in between.
      for (const place of page) {
        watched.add(place.sftp_username);
        await breath();
      }
      if (thread) await inTurn(() => thread.scan(page));
      else await scanHere(page);
      after = page.at(-1)?.id;
    }
  }

  async function goOn(firstTook: number): Promise<void> {
    for (let took = firstTook; !signal.aborted;) {
      const pause = Math.max(roundPause, RESTS_PER_WORK * took);
      await setTimeout(pause, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted || watched.complete()) continue;
      const began = performance.now();
      await round();
      took = performance.now() - began;
    }
  }

  async function scanLater(id: string, pause: number): Promise<void> {
    await setTimeout(pause, undefined, { signal, ref: false }).catch(() => undefined);
    requested.delete(id); // what happens from now on needs a scan of its own
    const place = signal.aborted ? undefined : await queries.directoryById(id);
    if (place) costs.set(id, await scan(place));
    else costs.delete(id);
  }

  function request(id: string, pause: number): void {
    if (requested.has(id) || signal.aborted) return;
    const later = scanLater(id, pause).catch((error: unknown) => {
      log.error({ err: error, directory: id }, 'cannot scan a directory, trying again');
      request(id, RETRY_PAUSE);
    });
    requested.set(id, later);
  }

  return {
    async coverAll() {
      const began = performance.now();
      await round();
      further ??= goOn(performance.now() - began);
    },
    request: (id) => request(id, Math.max(REQUEST_PAUSE, 10 * (costs.get(id) ?? 0))),
    async close() {
      await Promise.all([...requested.values(), inTurn.idle(), further]);
    },
  };
}
