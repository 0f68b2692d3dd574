/** Runs the recorder's turns when there is something to do, until it is closed. */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Log } from '../../../foundation/base/log.ts';
import type { Recorder } from './recorder.ts';

/**
 * The pause between two transactions that write, in ms. A commit costs more than its rows, so work is gathered
 * meanwhile.
 */
const GATHER_MS = 2;
/** How long a database that does not answer may delay closing, in ms. */
const CLOSE_TIMEOUT_MS = 5000;
const CHECK_MS = 10;

export class Loop {
  readonly #log: Log;
  #recorder: Recorder | undefined;
  #isWoken = false;
  #isClosed = false;
  #wake: (() => void) | undefined;
  #running: Promise<void> | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  start(recorder: Recorder): void {
    this.#recorder = recorder;
    this.#running = this.#run(recorder);
  }

  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  /** Records what has been interpreted and stops. */
  async close(): Promise<void> {
    this.#recorder?.flushNotes();
    const over = performance.now() + CLOSE_TIMEOUT_MS;
    while (this.#recorder?.isDrained === false && performance.now() < over) await setTimeout(CHECK_MS);
    this.#isClosed = true;
    this.wake();
    await this.#running;
  }

  async #run(recorder: Recorder): Promise<void> {
    while (!this.#isClosed) {
      this.#isWoken = false;
      let next: number | undefined;
      try {
        next = await recorder.turn();
      } catch (error) {
        this.#log.error({ err: error }, 'the recorder failed');
        next = performance.now() + 1000;
      }
      const gathered = recorder.wroteAt + GATHER_MS - performance.now();
      if (gathered > 0) await setTimeout(Math.ceil(gathered));
      else await setImmediate();
      if (!this.#isWoken && !this.#isClosed) await this.#sleepUntil(next);
    }
  }

  async #sleepUntil(next: number | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const ms = next === undefined ? undefined : Math.max(0, Math.ceil(next - performance.now()));
    const timer = ms === undefined ? undefined : globalThis.setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
    this.#wake = undefined;
  }
}
