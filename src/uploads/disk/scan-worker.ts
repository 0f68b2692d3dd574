/**
 * The thread that scans directories, so that the main thread does not wait while folders are read from the disk. It
 * reports files that differ from their rows, and changes nothing.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openReads } from '../../db/open.ts';
import { errorMessage } from '../../base/errors.ts';
import { type FilePath, jailFiles } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { filesAfter } from '../record/files.ts';
import { scanDirectory } from './scan.ts';

export interface ScanWorkerData {
  readonly databasePlace: string;
  readonly jailDir: string;
}

/** A file that differs from its row. */
export interface Found {
  readonly jail: Jail;
  readonly path: FilePath;
  readonly isMissing: boolean;
}

export interface Scanned {
  readonly jail: Jail;
  readonly folders: number;
  /** How long the scan took, in ms, without the waits for its findings to be taken. */
  readonly took: number;
  /** Why the jail could not be scanned. */
  readonly failure?: string;
}

export type FromScanWorker =
  /** The scan waits for `go-on` after this. */
  | { readonly kind: 'found'; readonly found: readonly Found[] }
  | { readonly kind: 'too-deep'; readonly jail: Jail }
  /** The results for all jails of the last `scan`. */
  | { readonly kind: 'scanned'; readonly scanned: readonly Scanned[] };

export type ToScanWorker =
  | { readonly kind: 'scan'; readonly jails: readonly Jail[] }
  | { readonly kind: 'go-on' }
  | { readonly kind: 'close' };

/** How many findings are handed over at once at most. */
const LOT = 100;

const port = parentPort;
if (!port) throw new Error('this file is the worker thread for scans');

const { databasePlace, jailDir } = workerData as ScanWorkerData;
const { reads, close: closeReads } = await openReads(databasePlace);
const filesRoot = jailFiles(jailDir);
const stop = new AbortController();
let found: Found[] = [];
let goOn: (() => void) | undefined;
/** How long handing over has taken so far, in ms. */
let waited = 0;
let scanning = Promise.resolve();

port.on('message', (message: ToScanWorker) => {
  if (message.kind === 'go-on') goOn?.();
  else if (message.kind === 'scan') scanning = scanAll(message.jails);
  else void close();
});

async function scanAll(jails: readonly Jail[]): Promise<void> {
  const scanned: Scanned[] = [];
  for (const jail of jails) {
    if (stop.signal.aborted) return;
    const began = performance.now() - waited;
    let folders = 0;
    let failure: string | undefined;
    try {
      folders = await scan(jail);
    } catch (error) {
      failure = errorMessage(error);
    }
    scanned.push({
      jail,
      folders,
      took: performance.now() - waited - began,
      ...(failure !== undefined && { failure }),
    });
  }
  await handOver();
  post({ kind: 'scanned', scanned });
}

function scan(jail: Jail): Promise<number> {
  const find = async (path: FilePath, isMissing: boolean): Promise<void> => {
    found.push({ jail, path, isMissing });
    if (found.length >= LOT) await handOver();
  };
  return scanDirectory({
    root: filesRoot(jail.sftp_username),
    filesAfter: (after, limit) => filesAfter.all(reads, { directory: jail.id, after, limit }),
    differs: (path) => find(path, false),
    missing: (path) => find(path, true),
    tooDeep: () => post({ kind: 'too-deep', jail }),
    signal: stop.signal,
  });
}

/** Hands findings over, and waits until they are taken. */
async function handOver(): Promise<void> {
  if (found.length === 0 || stop.signal.aborted) return;
  const lot = found;
  const began = performance.now();
  found = [];
  const going = new Promise<void>((resolve) => (goOn = resolve));
  post({ kind: 'found', found: lot });
  await going;
  waited += performance.now() - began;
}

async function close(): Promise<void> {
  stop.abort();
  goOn?.();
  await scanning;
  await closeReads();
  port?.close();
}

function post(message: FromScanWorker): void {
  port?.postMessage(message);
}
