/**
 * Work that nobody waits for, such as watching a jail that is still empty: beside a burst of requests it would slow each
 * of them down, so it is done when nothing has been added for a while, one piece in a turn of the event loop.
 */

/** How long nothing was added, in ms, before it begins; and how long anything waits for that at most. */
const QUIET = 100;
const LONGEST = 5000;

export interface Leisure {
  add(name: string): void;
  /** What was added under that name need not be done any more. */
  remove(name: string): void;
  /** Drops what was not done. */
  close(): void;
}

/** @param work must not throw. */
export function atLeisure(work: (name: string) => void): Leisure {
  /** When each was added; the longest waiting first. */
  const waiting = new Map<string, number>();
  let latest = 0;
  let timer: NodeJS.Timeout | undefined;
  let next: NodeJS.Immediate | undefined;

  function step(): void {
    timer = next = undefined;
    const [oldest] = waiting;
    if (!oldest) return;
    const [name, since] = oldest;
    const now = performance.now();
    if (now - latest < QUIET && now - since < LONGEST) {
      timer = setTimeout(step, QUIET).unref();
      return;
    }
    waiting.delete(name);
    work(name);
    next = setImmediate(step);
  }

  return {
    add(name) {
      latest = performance.now();
      if (!waiting.has(name)) waiting.set(name, latest);
      if (!timer && !next) timer = setTimeout(step, QUIET).unref();
    },
    remove: (name) => void waiting.delete(name),
    close() {
      waiting.clear();
      clearTimeout(timer);
      clearImmediate(next);
    },
  };
}
