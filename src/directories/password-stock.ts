/**
 * Passwords with their hashes, made ahead by a worker thread: a hash takes 2 ms of a processor, and a request that
 * waited for it on the main thread would hold up all others. Passwords in stock have been shown to nobody.
 *
 * The stock begins with the first password that is taken and grows each time it runs out, so an idle service makes none.
 * It is filled up when nobody has taken any for a while: hashing beside a burst of creates would slow each of them down.
 */
import { Worker } from 'node:worker_threads';
import type { Log } from '../log.ts';
import { type Credential, newCredential } from './credentials.ts';

/** Hashes to have ready: after the first create, and at the most. */
const FEW = 16;
const MANY = 1024;

/** How long nobody has taken one, in ms, before the stock is filled up; at once when it is down to this share. */
const QUIET = 250;
const LOW = 0.25;

export interface PasswordStock {
  /** One that nobody else gets. Made on the spot when none is ready. */
  take(): Credential;
  close(): Promise<void>;
}

export function createPasswordStock(log: Log): PasswordStock {
  const ready: Credential[] = [];
  let wanted = 0;
  let ordered = 0;
  let worker: Worker | undefined;
  let closed = false;
  const quiet = setTimeout(order, QUIET).unref();

  function order(): void {
    const missing = wanted - ready.length - ordered;
    if (closed || missing <= 0) return;
    worker ??= start();
    ordered += missing;
    worker.postMessage(missing);
  }

  function start(): Worker {
    const started = new Worker(new URL('./password-worker.ts', import.meta.url));
    started.unref();
    started.on('message', (credential: Credential) => {
      ordered -= 1;
      ready.push(credential);
    });
    started.on('error', (error) => log.error({ err: error }, 'the thread that hashes passwords failed'));
    started.on('exit', () => {
      ordered = 0;
      worker = undefined; // the next order starts another
    });
    return started;
  }

  return {
    take() {
      const credential = ready.pop();
      if (!credential) wanted = Math.min(Math.max(wanted * 2, FEW), MANY);
      if (ready.length + ordered < wanted * LOW) order();
      else quiet.refresh();
      return credential ?? newCredential();
    },
    async close() {
      closed = true;
      clearTimeout(quiet);
      await worker?.terminate();
    },
  };
}
