/** Work that waits for each other: one piece at a time, in the order in which it came. */

export interface InTurn {
  /** Begins when all before it has ended, well or not. Resolves or rejects as `work` does. */
  <T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when nothing of what has come so far is left. */
  idle(): Promise<void>;
}

export function createInTurn(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
  return Object.assign(inTurn, {
    async idle() {
      await last;
    },
  });
}
