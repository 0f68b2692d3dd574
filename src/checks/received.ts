/** Tells the checks which directories have received files. Without checks a commit costs one comparison. */
import type { Transfer } from '../history/transfers.ts';

export interface Received {
  /** Takes what a commit has put into the history. */
  committed(rows: readonly Transfer[]): void;
  /** Calls `received` for each directory from then on. */
  follow(received: (directoryId: string) => void): void;
}

export function createReceived(): Received {
  let tell: ((directoryId: string) => void) | undefined;
  return {
    committed(rows) {
      if (!tell) return;
      for (const { event, directory_id: id } of rows) if (event === 'received') tell(id);
    },
    follow(received) {
      tell = received;
    },
  };
}
