/**
 * Notices when events may be lost, or are too many to follow one by one. The kernel drops events silently once
 * `fs.inotify.max_queued_events` of them wait (16,384: 8,192 new files), and Node does not report that.
 */
import { readFileSync } from 'node:fs';
import type { Jail } from '../jails.ts';

const QUEUE_LIMIT = '/proc/sys/fs/inotify/max_queued_events';
/** The kernel's default. */
const QUEUE_LENGTH = 16_384;

/** How many events of one jail are followed one by one within a window, and its length in ms. */
const FOLLOWED_EVENTS = 2000;
const WINDOW_MS = 1000;

/**
 * Counts the events of all jails in one turn of the event loop. A turn reads the kernel's queue until it is empty, so
 * a turn with fewer events than the queue holds has lost none.
 */
export class EventQueue {
  readonly #overflowed: (jails: readonly Jail[]) => void;
  /**
   * How many events in one turn count as a loss: half of the queue, or a flood. The queue also holds events of folders
   * that are no longer watched, which are not counted.
   */
  readonly #limit: number;
  #events = 0;
  readonly #jails = new Map<string, Jail>();

  /** @param overflowed called with the jails that some of the events came from; any other may have lost its own. */
  constructor(overflowed: (jails: readonly Jail[]) => void, length = queueLength()) {
    this.#overflowed = overflowed;
    this.#limit = Math.min(length / 2, FOLLOWED_EVENTS);
  }

  heard(jail: Jail): void {
    if (this.#events === 0) setImmediate(() => this.#endTurn());
    this.#events += 1;
    this.#jails.set(jail.id, jail);
  }

  #endTurn(): void {
    const jails = [...this.#jails.values()];
    const isLost = this.#events >= this.#limit;
    this.#events = 0;
    this.#jails.clear();
    if (isLost) this.#overflowed(jails);
  }
}

/**
 * Notices when a jail has more events than are worth following: comparing the whole directory later is then cheaper.
 * The comparison cannot miss anything.
 */
export class Flood {
  readonly #began: () => void;
  #events = 0;

  constructor(began: () => void) {
    this.#began = began;
  }

  heard(): void {
    // A timer does not run before all events that the kernel has are delivered, however long that takes.
    if (this.#events === 0) setTimeout(() => (this.#events = 0), WINDOW_MS).unref();
    this.#events += 1;
    if (this.#events === FOLLOWED_EVENTS + 1) this.#began();
  }
}

function queueLength(): number {
  try {
    return Number(readFileSync(QUEUE_LIMIT, 'utf8')) || QUEUE_LENGTH;
  } catch {
    return QUEUE_LENGTH;
  }
}
