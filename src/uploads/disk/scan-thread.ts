/** The thread for scans (`scan-worker.ts`) as the scanner uses it: started when needed, ended when idle for a while. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Jail } from '../jails.ts';
import type { Found, FromScanWorker, Scanned, ScanWorkerData, ToScanWorker } from './scan-worker.ts';

/** How long the thread stays without work, in ms. It uses as much memory as a second JavaScript engine. */
const IDLE_MS = 5000;

const HEAP = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };

export interface ScanThreadOptions extends ScanWorkerData {
  /** Takes findings. The scan waits until this resolves. */
  take(found: readonly Found[]): Promise<void>;
  tooDeep(jail: Jail): void;
  /** How long the thread stays without work, in ms; five seconds when left out. */
  readonly idle?: number | undefined;
}

export class ScanThread {
  readonly #options: ScanThreadOptions;
  #worker: Worker | undefined;
  #ended = Promise.resolve();
  #scanning: (PromiseWithResolvers<readonly Scanned[]> & { readonly worker: Worker }) | undefined;
  #idle: NodeJS.Timeout | undefined;
  /** Why the thread has ended. */
  #failure: unknown;

  constructor(options: ScanThreadOptions) {
    this.#options = options;
  }

  /** Scans jails one after the other. Only one call may be under way. */
  async scan(jails: readonly Jail[]): Promise<readonly Scanned[]> {
    clearTimeout(this.#idle);
    const worker = (this.#worker ??= this.#start());
    this.#scanning = { worker, ...Promise.withResolvers() };
    try {
      this.#send({ kind: 'scan', jails });
      return await this.#scanning.promise;
    } finally {
      this.#scanning = undefined;
      this.#idle = setTimeout(() => this.#end(), this.#options.idle ?? IDLE_MS).unref();
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    this.#end();
    await this.#ended;
  }

  #start(): Worker {
    const { databasePlace, jailDir } = this.#options;
    const workerData: ScanWorkerData = { databasePlace, jailDir };
    const worker = new Worker(new URL(`./scan-worker${extname(import.meta.url)}`, import.meta.url), {
      workerData,
      resourceLimits: HEAP,
    });
    this.#failure = new Error('the thread for scans has ended');
    worker.on('error', (error) => (this.#failure = new Error('the thread for scans failed', { cause: error })));
    this.#ended = new Promise((resolve) => {
      worker.once('exit', () => {
        if (this.#worker === worker) this.#worker = undefined;
        // An idle thread may still be ending while the next one scans.
        if (this.#scanning?.worker === worker) this.#scanning.reject(this.#failure);
        resolve();
      });
    });
    worker.on('message', (message: FromScanWorker) => this.#heard(message));
    return worker;
  }

  #heard(message: FromScanWorker): void {
    if (message.kind === 'scanned') this.#scanning?.resolve(message.scanned);
    else if (message.kind === 'too-deep') this.#options.tooDeep(message.jail);
    else void this.#hand(message.found);
  }

  async #hand(found: readonly Found[]): Promise<void> {
    const worker = this.#worker;
    try {
      await this.#options.take(found);
      this.#send({ kind: 'go-on' });
    } catch (error) {
      this.#failure = error;
      await worker?.terminate();
    }
  }

  #end(): void {
    this.#send({ kind: 'close' });
    this.#worker = undefined;
  }

  #send(message: ToScanWorker): void {
    this.#worker?.postMessage(message);
  }
}
