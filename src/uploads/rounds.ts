/**
 * Scans of whole directories: all of them at the start and, while the watcher cannot see everything, again and again;
 * a single one when something about it is not certain. One at a time, and the same directory not too often, since a
 * user can cause a scan and make it long.
 */
import { setTimeout } from 'node:timers/promises';
import type { Log } from '../log.ts';
import type { FilesRoot } from './batch.ts';
import type { UploadQueries } from './queries.ts';
import { scanDirectory } from './scan.ts';
import type { Place, Settler } from './settle.ts';
import type { Watched } from './watched.ts';

const PAGE = 200;

/** Changes on their way to the database beyond which a scan waits. */
const BACKLOG = 1000;

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
  drained(left: number): Promise<void>;
  readonly signal: AbortSignal;
  /** Between rounds while not everything is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
}

export interface Rounds {
  /** Scans every directory once and has it watched. */
  coverAll(): Promise<void>;
  /** Scans one directory soon. */
  request(directoryId: string): void;
  close(): Promise<void>;
}

export function createRounds(options: RoundsOptions): Rounds {
  const { log, queries, signal, watched, roundPause = ROUND_PAUSE } = options;
  const requested = new Map<string, Promise<void>>();
  /** What the last scan of a directory cost, in ms. Only of those that were requested. */
  const costs = new Map<string, number>();
  let turn = Promise.resolve();
  let further: Promise<void> | undefined;

  /** Scans wait for each other. */
  function scan(place: Place): Promise<number> {
    const result = turn.then(() => scanNow(place));
    turn = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }

  async function scanNow(place: Place): Promise<number> {
    const began = performance.now();
    await scanDirectory(
      {
        filesRoot: options.filesRoot,
        queries,
        settler: options.settler,
        breathe: () => options.drained(BACKLOG),
        tooDeep: () => log.warn({ directory: place.id }, 'folders are nested too deeply; what lies below is not seen'),
        signal,
      },
      place,
    );
    return performance.now() - began;
  }

  async function round(): Promise<void> {
    watched.begin(await queries.directoryCount());
    let after = '';
    while (!signal.aborted) {
      const page = await queries.directoriesAfter(after, PAGE);
      for (const place of page) {
        if (signal.aborted) return;
        // Watched before it is looked at, so that nothing falls in between.
        watched.add(place.sftp_username);
        await scan(place).catch((error: unknown) =>
          log.error({ err: error, directory: place.id }, 'cannot scan a directory'),
        );
      }
      const last = page.at(-1);
      if (!last) return;
      after = last.id;
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
    const scanning = scanLater(id, pause).catch((error: unknown) => {
      log.error({ err: error, directory: id }, 'cannot scan a directory, trying again');
      request(id, RETRY_PAUSE);
    });
    requested.set(id, scanning);
  }

  return {
    async coverAll() {
      const began = performance.now();
      await round();
      further ??= goOn(performance.now() - began);
    },
    request: (id) => request(id, Math.max(REQUEST_PAUSE, 10 * (costs.get(id) ?? 0))),
    async close() {
      await Promise.all([...requested.values(), turn, further]);
    },
  };
}
