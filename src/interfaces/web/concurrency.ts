/**
 * Limits how much an account or a client does at once. An account receives only a few long responses (lists and files) at once,
 * so that clients that do not read hold few of them in memory or open. The newest request goes first, so a client that reads
 * waits for at most one that does not.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { BerthError } from '../../foundation/base/errors.ts';

/** A client that has read nothing for this long is disconnected when another one waits. */
const STALLED_MS = 10_000;

/** Resolves when this response has a slot, or its client has gone. It keeps the slot until it is sent. */
export type AwaitSlot = (accountId: string, answer: ServerResponse) => Promise<void>;

/** The responses of an account: how many are under way, and the waiting ones, newest last, with the functions that begin them. */
interface Line {
  underWay: number;
  readonly waiting: Map<ServerResponse, () => void>;
}

export function slots({
  atOnce,
  stalledMs = STALLED_MS,
}: {
  atOnce: number;
  stalledMs?: number | undefined;
}): AwaitSlot {
  /** The queues of accounts that have an answer under way. */
  const lines = new Map<string, Line>();

  function begin(accountId: string, line: Line, answer: ServerResponse): void {
    const watch = setInterval(() => void (line.waiting.size > 0 && answer.destroy()), stalledMs);
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
    // Without a socket, earlier responses on the same connection are not sent yet, and it would wait for their slot.
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

/**
 * Counts the files that arrive at once.
 * @returns a function for a file that begins to arrive, with each name under which it counts and the limit there. That returns what
 * ends it, and throws {BerthError} `rate_limited`.
 */
export function arrivals(): (limits: Readonly<Record<string, number>>) => () => void {
  const coming = new Map<string, number>();
  return (limits) => {
    for (const [name, limit] of Object.entries(limits))
      if ((coming.get(name) ?? 0) >= limit)
        throw new BerthError('rate_limited', `Over ${limit} files are arriving at once`);
    const add = (count: number) => {
      for (const name of Object.keys(limits)) {
        const now = (coming.get(name) ?? 0) + count;
        if (now > 0) coming.set(name, now);
        else coming.delete(name);
      }
    };
    add(1);
    return () => add(-1);
  };
}
