/** Locks directories that move to another node: no request and no upkeep changes them here until the move ends. */
import { BerthError } from '../../../foundation/base/errors.ts';

export interface MoveLock {
  isShut(id: string): boolean;
  /** @throws {BerthError} `home_unavailable` while the directory is shut. */
  pass(id: string): void;
  /** Like `pass`, then runs `work`, which counts in `underWay` until it ends. */
  through<T>(id: string, work: () => Promise<T>): Promise<T>;
  /** Shuts a directory. False when it was shut already. */
  shut(id: string): boolean;
  /** The number of running calls of `through`. */
  underWay(id: string): number;
  open(id: string): void;
}

export function createMoveLock(): MoveLock {
  const shut = new Set<string>();
  const underWay = new Map<string, number>();

  function pass(id: string): void {
    if (shut.has(id)) throw new BerthError('home_unavailable', 'This directory is being moved to another node');
  }

  function count(id: string, by: 1 | -1): void {
    const left = (underWay.get(id) ?? 0) + by;
    if (left === 0) underWay.delete(id);
    else underWay.set(id, left);
  }

  return {
    isShut: (id) => shut.has(id),
    pass,
    async through(id, work) {
      pass(id);
      count(id, 1);
      try {
        return await work();
      } finally {
        count(id, -1);
      }
    },
    shut(id) {
      if (shut.has(id)) return false;
      shut.add(id);
      return true;
    },
    underWay: (id) => underWay.get(id) ?? 0,
    open: (id) => void shut.delete(id),
  };
}
