/**
 * Notes of sessions on their way to the history: they are written with the next looks, or a moment later by themselves.
 * A crash may lose them, and so does a flood.
 */
import type { SessionNote } from './history.ts';

/** Notes in one transaction; how many wait at most. */
const BATCH = 64;
const LIMIT = 10_000;
/** How long they wait for something to be written with, in ms. */
const PATIENCE = 250;

export class SessionNotes {
  #waiting: SessionNote[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #onDue: () => void;

  constructor(onDue: () => void) {
    this.#onDue = onDue;
  }

  add(note: SessionNote): void {
    if (this.#waiting.length >= LIMIT) return;
    this.#waiting.push(note);
    this.#timer ??= setTimeout(() => this.makeDue(), PATIENCE).unref();
  }

  /** Whether they should be written even without a look. */
  get isDue(): boolean {
    return this.#waiting.length > 0 && this.#timer === undefined;
  }

  makeDue(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#onDue();
  }

  take(): readonly SessionNote[] {
    return this.#waiting.splice(0, BATCH);
  }

  /** They could not be written. */
  putBack(notes: readonly SessionNote[]): void {
    this.#waiting.unshift(...notes);
  }
}
