/** The thread for scans of very many directories (`scan-worker.ts`), as the rounds use it. */
import { Worker } from 'node:worker_threads';
import { lstatBeneath } from '../beneath.ts';
import type { Log } from '../log.ts';
import type { FilesRoot } from './batch.ts';
import type { Found, FromScanWorker, ScanWorkerData, ToScanWorker } from './scan-worker.ts';
import type { Place, Settler } from './settle.ts';
import { turns } from './turns.ts';

export interface ScanThreadOptions extends ScanWorkerData {
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly settler: Pick<Settler, 'examine' | 'missing'>;
  /** Waits while too many changes are on their way to the database. */
  breathe(): Promise<void>;
  /** A folder is nested too deeply to be looked into. */
  tooDeep(place: Place): void;
  /** That directory cannot be scanned. */
  failed(place: Place, reason: string): void;
  readonly signal: AbortSignal;
}

export interface ScanThread extends AsyncDisposable {
  /** Scans these, one after the other. Returns early when the signal says so. */
  scan(places: readonly Place[]): Promise<void>;
}

/** Starts the thread; it ends when this is disposed of. */
export function startScanThread(options: ScanThreadOptions): ScanThread {
  const { databaseFile, jailDir, settler } = options;
  const workerData: ScanWorkerData = { databaseFile, jailDir };
  const worker = new Worker(new URL('./scan-worker.ts', import.meta.url), { workerData });
  const send = (message: ToScanWorker): void => worker.postMessage(message);
  let waiting: PromiseWithResolvers<void> | undefined;
  let failure: Error | undefined;

  worker.on('error', (error) => (failure = new Error('the thread for scans failed', { cause: error })));
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      failure ??= new Error('the thread for scans has ended');
      if (options.signal.aborted) waiting?.resolve();
      else waiting?.reject(failure);
      resolve();
    });
  });
  worker.on('message', (message: FromScanWorker) => {
    if (message.kind === 'scanned') waiting?.resolve();
    else if (message.kind === 'too-deep') options.tooDeep(message.place);
    else if (message.kind === 'failed') options.failed(message.place, message.reason);
    else void take(message.found).finally(() => send({ kind: 'go-on' }));
  });

  async function take(found: readonly Found[]): Promise<void> {
    const breath = turns();
    for (const { place, path, isMissing } of found) {
      try {
        await look(place, Buffer.from(path, 'latin1'), isMissing);
      } catch (error) {
        options.log.error({ err: error, directory: place.id }, 'cannot look at a file');
      }
      await breath();
    }
    await options.breathe();
  }

  async function look(place: Place, path: Buffer, isMissing: boolean): Promise<void> {
    if (isMissing) return settler.missing(place, path);
    const stats = lstatBeneath(options.filesRoot(place.sftp_username), path);
    if (stats?.isFile()) await settler.examine(place, path, stats);
  }

  const close = (): void => send({ kind: 'close' });
  options.signal.addEventListener('abort', close, { once: true });
  return {
    async scan(places) {
      if (options.signal.aborted) return;
      if (failure) throw failure;
      waiting = Promise.withResolvers();
      send({ kind: 'scan', places });
      await waiting.promise;
      waiting = undefined;
    },
    async [Symbol.asyncDispose]() {
      options.signal.removeEventListener('abort', close);
      close();
      await ended;
    },
  };
}
