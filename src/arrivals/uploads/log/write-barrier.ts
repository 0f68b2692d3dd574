/**
 * A write barrier for the transfer log: berth sends a mark of its own to one of the sockets. A socket keeps the order,
 * so once the mark comes back, everything that sshd logged there before is in the journal.
 */
import { connect } from 'node:net';
import { isOutOfDescriptors } from '../../../foundation/base/errors.ts';
import { MARK } from './log-line.ts';

/**
 * How long to wait for a mark that does not come back, in ms: on a busy machine the log lags by seconds. While the
 * journal is full, lines wait in memory until it is compacted, and a compaction may wait for the caller.
 */
const PATIENCE_MS = 30_000;
const FULL_PATIENCE_MS = 1000;

interface Way {
  current?: Promise<boolean> | undefined;
  next?: Promise<boolean> | undefined;
}

export class WriteBarrier {
  readonly #isFull: () => boolean;
  readonly #awaited = new Map<string, () => void>();
  readonly #ways = new Map<string, Way>();
  #count = 0;

  /** @param isFull whether the journal takes no more. */
  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /**
   * Resolves with true once everything that sshd logged to the socket before the call is in the journal, and with false
   * when that takes too long.
   */
  passed(socket: string): Promise<boolean> {
    const way = this.#ways.get(socket) ?? {};
    this.#ways.set(socket, way);
    // The current mark was sent before the call, so wait for the next one, which all such callers share.
    if (way.current) return (way.next ??= way.current.then(() => this.#begin(socket, way)));
    return this.#begin(socket, way);
  }

  /** A mark came back. */
  cameBack(text: string): void {
    this.#awaited.get(text)?.();
  }

  #begin(socket: string, way: Way): Promise<boolean> {
    way.next = undefined;
    const sent = this.#send(socket).finally(() => {
      if (way.current === sent) way.current = undefined;
    });
    way.current = sent;
    return sent;
  }

  #send(path: string): Promise<boolean> {
    this.#count += 1;
    const text = `${MARK}${this.#count}`;
    return new Promise((resolve) => {
      const done = (isPassed = true): void => {
        this.#awaited.delete(text);
        clearInterval(timer);
        resolve(isPassed);
      };
      const over = performance.now() + PATIENCE_MS;
      const timer = setInterval(() => {
        if (this.#isFull() || performance.now() >= over) done(false);
      }, FULL_PATIENCE_MS).unref();
      this.#awaited.set(text, done);
      connect(path)
        .on('error', (error) => {
          // Without a descriptor, the patience runs out. Other errors mean that the socket is closed, so nothing more will be read.
          if (!isOutOfDescriptors(error)) done();
        })
        .end(`${text}\0`);
    });
  }
}
