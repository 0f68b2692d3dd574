/** The thread for scans (`scan-worker.ts`) as the scanner uses it: started when needed, ended when idle for a while. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Place } from '../record/ledger.ts';
import type { Found, FromScanWorker, Scanned, ScanWorkerData, ToScanWorker } from './scan-worker.ts';

/** How long it stays without work, in ms: its memory is that of a second JavaScript engine. */
const IDLE = 5000;

const HEAP = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };

export interface ScanThreadOptions extends ScanWorkerData {
  /** Takes what was found; the scan waits for it. */
  take(found: readonly Found[]): Promise<void>;
  tooDeep(place: Place): void;
}

export interface ScanThread {
  /** Scans these, one after the other. One call at a time. */
  scan(places: readonly Place[]): Promise<readonly Scanned[]>;
  close(): Promise<void>;
}

export function createScanThread({ take, tooDeep, databaseFile, jailDir }: ScanThreadOptions): ScanThread {
  const workerData: ScanWorkerData = { databaseFile, jailDir };
  let worker: Worker | undefined;
  let ended = Promise.resolve();
  let waiting: PromiseWithResolvers<readonly Scanned[]> | undefined;
  let idle: NodeJS.Timeout | undefined;

  function send(message: ToScanWorker): void {
    worker?.postMessage(message);
  }

  function start(): Worker {
    const started = new Worker(new URL(`./scan-worker${extname(import.meta.url)}`, import.meta.url), {
      workerData,
      resourceLimits: HEAP,
    });
    let failure = new Error('the thread for scans has ended');
    started.on('error', (error) => (failure = new Error('the thread for scans failed', { cause: error })));
    ended = new Promise((resolve) => {
      started.once('exit', () => {
        if (worker === started) worker = undefined;
        waiting?.reject(failure);
        resolve();
      });
    });
    started.on('message', (message: FromScanWorker) => {
      if (message.kind === 'scanned') waiting?.resolve(message.scanned);
      else if (message.kind === 'too-deep') tooDeep(message.place);
      else void take(message.found).finally(() => send({ kind: 'go-on' }));
    });
    return started;
  }

  function end(): void {
    send({ kind: 'close' });
    worker = undefined;
  }

  return {
    async scan(places) {
      clearTimeout(idle);
      worker ??= start();
      waiting = Promise.withResolvers();
      try {
        send({ kind: 'scan', places });
        return await waiting.promise;
      } finally {
        waiting = undefined;
        idle = setTimeout(end, IDLE).unref();
      }
    },
    async close() {
      clearTimeout(idle);
      end();
      await ended;
    },
  };
}
