/**
 * A session's reads on their way to the history. Whoever opens and closes files in a loop must not fill it: of a path
 * that is read again within a minute, the first read has a row of its own, and the others have one together.
 */
import { type Micros, SECOND } from '../../clock.ts';
import type { SessionNote } from '../record/history.ts';

const WINDOW: Micros = 60 * SECOND;
/** Paths told apart within a window. Reads of more are one row without a path. */
const PATHS = 5000;

export class Reads {
  /** By path: what has no row yet. */
  #again = new Map<string, SessionNote | undefined>();
  #since: Micros = 0;

  /** Returns what to write for it, and for earlier ones. */
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

  /** What has no row yet. */
  end(): SessionNote[] {
    const rest = [...this.#again.values()].filter((read) => read !== undefined);
    this.#again = new Map();
    return rest;
  }
}

/** One row for both: it begins with the first and ends with the last. */
function together(earlier: SessionNote | undefined, read: SessionNote): SessionNote {
  return { ...read, openedAt: (earlier ?? read).openedAt, bytes: (earlier?.bytes ?? 0) + (read.bytes ?? 0) };
}
