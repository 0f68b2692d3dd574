/**
 * Combines a session's reads before they go into the history, so that a client that opens and closes files in a loop
 * does not fill it. When a path is read again within a minute, the first read has a row of its own, and the others
 * share one.
 */
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { SessionNote } from '../record/transfer-history.ts';

const WINDOW: Micros = 60 * SECOND;
/** How many paths have rows of their own within a window. Reads of other paths share one row without a path. */
const PATHS = 5000;

export class Reads {
  /** The paths of this window, each with its further reads combined, which have no row yet. */
  #again = new Map<string, SessionNote | undefined>();
  #since: Micros = 0;

  /** Returns the rows to write now, for this read or earlier ones. */
  add(read: SessionNote): SessionNote[] {
    const isOver = Math.abs(read.at - this.#since) >= WINDOW;
    const before = isOver ? this.end() : [];
    if (isOver) this.#since = read.at;
    const { path = '', ...unnamed } = read;
    const row: SessionNote = this.#again.size < PATHS || this.#again.has(path) ? read : unnamed;
    const key = row.path ?? '';
    const isFirst = !this.#again.has(key);
    this.#again.set(key, isFirst ? undefined : together(this.#again.get(key), row));
    return isFirst ? [...before, row] : before;
  }

  /** Ends the window. Returns the rows for reads that have none yet. */
  end(): SessionNote[] {
    const rest = [...this.#again.values()].filter((read) => read !== undefined);
    this.#again = new Map();
    return rest;
  }
}

/** One row for two reads: from the beginning of the earlier to the end of the later. */
function together(earlier: SessionNote | undefined, read: SessionNote): SessionNote {
  return { ...read, openedAt: (earlier ?? read).openedAt, bytes: (earlier?.bytes ?? 0) + (read.bytes ?? 0) };
}
