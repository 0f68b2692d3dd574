/**
 * A write barrier for the transfer log: a mark of berth's own. When it comes back, all has been read that sshd had
 * logged before it was sent, since sockets keep the order.
 */
import { connect } from 'node:net';
import { MARK } from './log-line.ts';

/** How long to wait for a mark that does not come back, in ms: on a busy machine the log lags by seconds. */
const PATIENCE = 30_000;

export class WriteBarrier {
  readonly #sockets: () => readonly string[];
  readonly #awaited = new Map<string, () => void>();
  #count = 0;
  #current: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** @param sockets the paths of the log's sockets. */
  constructor(sockets: () => readonly string[]) {
    this.#sockets = sockets;
  }

  /** Resolves when what sshd had logged before the call has been read; after half a minute in any case. */
  passed(): Promise<void> {
    // Marks that are under way were sent before the call: wait for the next ones, together with other callers.
    if (this.#current) return (this.#next ??= this.#current.then(() => this.#begin()));
    return this.#begin();
  }

  /** A mark came back. */
  cameBack(text: string): void {
    this.#awaited.get(text)?.();
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    const sent = this.#sendAll().finally(() => {
      if (this.#current === sent) this.#current = undefined;
    });
    this.#current = sent;
    return sent;
  }

  async #sendAll(): Promise<void> {
    await Promise.all(this.#sockets().map((path) => this.#send(path)));
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
      const timer = setTimeout(done, PATIENCE);
      this.#awaited.set(text, done);
      // Closed already: then nothing more will be read.
      connect(path).on('error', done).end(`${text}\0`);
    });
  }
}
