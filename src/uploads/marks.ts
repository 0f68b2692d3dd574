/**
 * Marks in the transfer log: messages of berth's own. One that comes back says that everything has been read that sshd
 * had logged before it was sent, since sockets keep the order.
 */
import { connect } from 'node:net';

/** How long to wait for a mark that does not come back, in ms. */
const PATIENCE = 1000;

export interface Marks {
  /** Resolves when what sshd had logged before the call has been followed; after a second in any case. */
  passed(): Promise<void>;
  /** Whether the message is a mark that is waited for. */
  take(text: string): boolean;
}

/** @param sockets the paths of the log's sockets. */
export function createMarks(sockets: () => readonly string[]): Marks {
  const awaited = new Map<string, () => void>();
  let count = 0;

  function send(path: string): Promise<void> {
    count += 1;
    const text = `berth's mark ${count}`;
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

  return {
    async passed() {
      await Promise.all(sockets().map(send));
    },
    take(text) {
      const done = awaited.size === 0 ? undefined : awaited.get(text);
      done?.();
      return done !== undefined;
    },
  };
}
