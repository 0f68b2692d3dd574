/**
 * A write barrier for the transfer log: a message of berth's own. When it comes back, all has been read that sshd had
 * logged before it was sent, since sockets keep the order.
 */
import { connect } from 'node:net';

/** How long to wait for a message that does not come back, in ms. */
const PATIENCE = 1000;

export interface WriteBarrier {
  /** Resolves when what sshd had logged before the call has been read; after a second in any case. */
  passed(): Promise<void>;
  /** A message of berth's own came back. */
  cameBack(text: string): void;
}

/** @param sockets the paths of the log's sockets. */
export function createWriteBarrier(sockets: () => readonly string[]): WriteBarrier {
  const awaited = new Map<string, () => void>();
  let count = 0;
  let current: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function send(path: string): Promise<void> {
    count += 1;
    const text = `berth ${count}`;
    return new Promise((resolve) => {
      const done = (): void => {
        awaited.delete(text);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, PATIENCE);
      awaited.set(text, done);
      // Closed already: then nothing more will be read.
      connect(path).on('error', done).end(`${text}\0`);
    });
  }

  function begin(): Promise<void> {
    next = undefined;
    const sent = sendAll().finally(() => {
      if (current === sent) current = undefined;
    });
    current = sent;
    return sent;
  }

  async function sendAll(): Promise<void> {
    await Promise.all(sockets().map(send));
  }

  return {
    // Who comes while one is under way shares the next.
    passed: () => (current ? (next ??= current.then(begin)) : begin()),
    cameBack: (text) => awaited.get(text)?.(),
  };
}
