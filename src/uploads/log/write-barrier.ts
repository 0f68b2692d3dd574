/**
 * A write barrier for the transfer log: a mark of berth's own, sent to one of its sockets. When it comes back, all is in the journal
 * that sshd had logged there before it was sent, since a socket keeps the order.
 */
import { connect } from 'node:net';
import { MARK } from './log-line.ts';

/** How long to wait for a mark that does not come back: on a busy machine the log lags by seconds. */
const PATIENCE_MS = 30_000;

interface Way {
  current?: Promise<void> | undefined;
  next?: Promise<void> | undefined;
}

export class WriteBarrier {
  readonly #awaited = new Map<string, () => void>();
  readonly #ways = new Map<string, Way>();
  #count = 0;

  /** Resolves when what sshd had logged to that socket before the call has been read; after half a minute in any case. */
  passed(socket: string): Promise<void> {
    const way = this.#ways.get(socket) ?? {};
    this.#ways.set(socket, way);
    // A mark that is under way was sent before the call: wait for the next one, together with other callers.
    if (way.current) return (way.next ??= way.current.then(() => this.#begin(socket, way)));
    return this.#begin(socket, way);
  }

  /** A mark came back. */
  cameBack(text: string): void {
    this.#awaited.get(text)?.();
  }

  #begin(socket: string, way: Way): Promise<void> {
    way.next = undefined;
    const sent = this.#send(socket).finally(() => {
      if (way.current === sent) way.current = undefined;
    });
    way.current = sent;
    return sent;
  }

  #send(path: string): Promise<void> {
    this.#count += 1;
    const text = `${MARK}${this.#count}`;
    return new Promise((resolve) => {
      const done = (): void => {
        this.#awaited.delete(text);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, PATIENCE_MS);
      this.#awaited.set(text, done);
      // Closed already: then nothing more will be read.
      connect(path).on('error', done).end(`${text}\0`);
    });
  }
}
