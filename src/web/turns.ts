/**
 * Answers that take long, lists and files, go out a few at a time per account, so that clients that do not read hold
 * few of them in memory or open, not as many as the account may ask for. The newest request goes first, so a client that
 * reads waits for only one of those that do not.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

/** A client that takes nothing for so long loses its connection when another one waits. */
const STALLED_MS = 10_000;

/** Resolves when it is this answer's turn, which lasts until the answer is out, or when its client has gone. */
export type Turn = (accountId: string, answer: ServerResponse) => Promise<void>;

/** The answers of an account: how many are under way, and those that wait, the latest last, with what begins them. */
interface Line {
  underWay: number;
  readonly waiting: Map<ServerResponse, () => void>;
}

/** @param patience in ms. */
export function turns({ atOnce, patience = STALLED_MS }: { atOnce: number; patience?: number | undefined }): Turn {
  /** The queues of accounts that have an answer under way. */
  const lines = new Map<string, Line>();

  function begin(accountId: string, line: Line, answer: ServerResponse): void {
    const watch = setInterval(() => void (line.waiting.size > 0 && answer.destroy()), patience);
    answer.on('drain', () => watch.refresh());
    answer.once('close', () => {
      clearInterval(watch);
      const [next, go] = [...line.waiting].at(-1) ?? [];
      if (next) {
        line.waiting.delete(next);
        begin(accountId, line, next);
        return go?.();
      }
      line.underWay -= 1;
      if (line.underWay === 0) lines.delete(accountId);
    });
  }

  return async (accountId, answer) => {
    // Until then the answers before it on its connection are not out: a turn would wait for theirs.
    if (!answer.socket) await once(answer, 'socket');
    if (answer.destroyed) return;
    const line = lines.get(accountId) ?? { underWay: 0, waiting: new Map() };
    lines.set(accountId, line);
    if (line.underWay < atOnce) {
      line.underWay += 1;
      begin(accountId, line, answer);
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    line.waiting.set(answer, resolve);
    answer.once('close', () => {
      line.waiting.delete(answer);
      resolve();
    });
    await promise;
  };
}
