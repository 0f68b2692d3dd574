/**
 * Long lists go out one at a time per account, so that clients that do not read hold one of them in memory, not as many
 * as the account may ask for. Whoever asked last is next: behind many that do not read, one that does waits for only one.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

/** A client that takes nothing for so long loses its connection when another one waits, in ms. */
const PATIENCE = 10_000;

/** Resolves when it is this answer's turn, which lasts until the answer is out, or when its client has gone. */
export type ListTurn = (accountId: string, answer: ServerResponse) => Promise<void>;

/** The answers that wait, the latest last, and what begins them. */
type Waiting = Map<ServerResponse, () => void>;

/** @param patience in ms. */
export function listTurns(patience = PATIENCE): ListTurn {
  /** Of the accounts that have an answer under way. */
  const lines = new Map<string, Waiting>();

  function begin(accountId: string, waiting: Waiting, answer: ServerResponse): void {
    const watch = setInterval(() => void (waiting.size > 0 && answer.destroy()), patience);
    answer.on('drain', () => watch.refresh());
    answer.once('close', () => {
      clearInterval(watch);
      const [next, go] = [...waiting].at(-1) ?? [];
      if (!next) return lines.delete(accountId);
      waiting.delete(next);
      begin(accountId, waiting, next);
      return go?.();
    });
  }

  return async (accountId, answer) => {
    // Until then the answers before it on its connection are not out: a turn would wait for theirs.
    if (!answer.socket) await once(answer, 'socket');
    if (answer.destroyed) return;
    const waiting = lines.get(accountId);
    if (!waiting) {
      const none: Waiting = new Map();
      lines.set(accountId, none);
      begin(accountId, none, answer);
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.set(answer, resolve);
    answer.once('close', () => {
      waiting.delete(answer);
      resolve();
    });
    await promise;
  };
}
