/**
 * A thread for scans of very many directories: whenever a folder has to come from the disk, this thread waits and not
 * the one that answers requests. It says which files are not as their rows have them, and changes nothing: the settler
 * looks for itself.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openReads } from '../db/open.ts';
import { errorMessage } from '../errors.ts';
import { uploadQueries } from './queries.ts';
import { scanDirectory } from './scan.ts';
import type { Place } from './settle.ts';
import { jailFiles } from './jail-files.ts';

export interface ScanWorkerData {
  readonly databaseFile: string;
  readonly jailDir: string;
}

/** A file that is not as its row has it. */
export interface Found {
  readonly place: Place;
  /** Its bytes as Latin-1. */
  readonly path: string;
  readonly isMissing: boolean;
}

export type FromScanWorker =
  /** Answered with `go-on`. */
  | { readonly kind: 'found'; readonly found: readonly Found[] }
  | { readonly kind: 'too-deep'; readonly place: Place }
  | { readonly kind: 'failed'; readonly place: Place; readonly reason: string }
  /** All places of the last `scan`. */
  | { readonly kind: 'scanned' };

export type ToScanWorker =
  | { readonly kind: 'scan'; readonly places: readonly Place[] }
  | { readonly kind: 'go-on' }
  | { readonly kind: 'close' };

/** What is found is handed over in lots of this many at most. */
const LOT = 100;

const port = parentPort;
if (!port) throw new Error('this file is a worker thread for scans');

const { databaseFile, jailDir } = workerData as ScanWorkerData;
const reads = openReads(databaseFile);
const filesRoot = jailFiles(jailDir);
const queries = uploadQueries(reads);
const stop = new AbortController();
let found: Found[] = [];
let goOn: (() => void) | undefined;
let scanning = Promise.resolve();

port.on('message', (message: ToScanWorker) => {
  if (message.kind === 'go-on') goOn?.();
  else if (message.kind === 'scan') scanning = scanAll(message.places);
  else void close();
});

async function scanAll(places: readonly Place[]): Promise<void> {
  for (const place of places) {
    if (stop.signal.aborted) return;
    try {
      await scanDirectory(
        {
          filesRoot,
          queries,
          settler: {
            async examine(_place, path) {
              find(place, path, false);
              if (found.length >= LOT) await handOver();
            },
            missing: (_place, path) => find(place, path, true),
          },
          breathe: handOver,
          tooDeep: () => post({ kind: 'too-deep', place }),
          signal: stop.signal,
        },
        place,
      );
    } catch (error) {
      post({ kind: 'failed', place, reason: errorMessage(error) });
    }
  }
  await handOver();
  post({ kind: 'scanned' });
}

function find(place: Place, path: Buffer, isMissing: boolean): void {
  found.push({ place, path: path.toString('latin1'), isMissing });
}

/** Waits until what was found is on its way to the database. */
async function handOver(): Promise<void> {
  if (found.length === 0 || stop.signal.aborted) return;
  const lot = found;
  found = [];
  const going = new Promise<void>((resolve) => (goOn = resolve));
  post({ kind: 'found', found: lot });
  await going;
}

async function close(): Promise<void> {
  stop.abort();
  goOn?.();
  await scanning;
  reads.close();
  port?.close();
}

function post(message: FromScanWorker): void {
  port?.postMessage(message);
}
