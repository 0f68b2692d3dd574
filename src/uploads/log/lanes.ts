/**
 * Lines of the log that wait to be followed, a lane for each directory: lanes take turns, so that a session that says
 * a lot delays only its own directory. A lane that overflows drops what comes, until it is empty.
 */
import type { Line } from './transfer-log-worker.ts';

/** Lines that a lane holds at most. */
const LIMIT = 20_000;

/** Lines of one lane before it is the next one's turn. */
export const TURN = 32;

/** Something to call when what stood before it in the lane has been followed. */
type Mark = () => void;

export class Lane {
  /** The directory's id, or a process that has yet to be told to belong to one. */
  readonly key: string;
  #queue: (Line | Mark)[] = [];
  #head = 0;
  #marks = 0;
  /** Whether lines have been dropped. */
  hasLost = false;

  constructor(key: string) {
    this.key = key;
  }

  get isEmpty(): boolean {
    return this.#head === this.#queue.length;
  }

  /** Whether something waits until it has been followed up to a mark. */
  get isAwaited(): boolean {
    return this.#marks > 0;
  }

  push(item: Line | Mark): void {
    if (typeof item === 'function') this.#marks += 1;
    if (typeof item !== 'function' && (this.hasLost || this.#queue.length - this.#head >= LIMIT)) this.hasLost = true;
    else this.#queue.push(item);
  }

  /** The next line; marks on the way to it are passed. */
  next(): Line | undefined {
    for (;;) {
      const item = this.#queue[this.#head];
      if (item === undefined) break;
      this.#head += 1;
      if (typeof item !== 'function') return item;
      this.#marks -= 1;
      item();
    }
    this.#queue = [];
    this.#head = 0;
    return undefined;
  }

  /** Moves all that waits here to the end of another lane. */
  drainTo(other: Lane): void {
    for (const item of this.#queue.slice(this.#head)) other.push(item);
    this.#queue = [];
    this.#head = 0;
    this.#marks = 0;
    other.hasLost ||= this.hasLost;
  }
}
