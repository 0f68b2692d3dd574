/** Notifies viewers of a directory when its files have changed. Without viewers, a commit costs one comparison. */
import type { TransferEvent } from '../../foundation/db/schema.ts';
import type { Transfer } from '../../rules/history/transfers.ts';

export interface FileChanges {
  /** Calls `changed` after each commit that changed files of the directory. @returns a function that stops this. */
  watch(directoryId: string, changed: () => void): () => void;
}

const CHANGING: ReadonlySet<TransferEvent> = new Set([
  'received',
  'rejected',
  'uploaded',
  'upload-dropped',
  'renamed',
  'removed',
]);

/** Call `committed` with the rows that each commit has added to the history. */
export function createFileChanges(): FileChanges & { committed(rows: readonly Transfer[]): void } {
  const watching = new Map<string, Set<() => void>>();
  return {
    watch(directoryId, changed) {
      const own = watching.get(directoryId) ?? new Set();
      watching.set(directoryId, own.add(changed));
      return () => {
        own.delete(changed);
        if (own.size === 0) watching.delete(directoryId);
      };
    },
    committed(rows) {
      if (watching.size === 0) return;
      const changing = rows.filter(({ event }) => CHANGING.has(event));
      for (const id of new Set(changing.map(({ directory_id }) => directory_id)))
        for (const changed of watching.get(id) ?? []) changed();
    },
  };
}
