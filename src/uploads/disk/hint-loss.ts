/**
 * Notices when hints may be missing or are too many to be followed one by one. The kernel drops events silently once
 * `fs.inotify.max_queued_events` of them wait (16,384: 8,192 new files), and Node does not report that.
 */
import { readFileSync } from 'node:fs';
import type { Jail } from '../jails.ts';

const QUEUE_LIMIT = '/proc/sys/fs/inotify/max_queued_events';
/** The kernel's default. */
const QUEUE_LENGTH = 16_384;

/** Events of one jail within a window that are followed one by one. */
const FOLLOWED_EVENTS = 2000;
const WINDOW_MS = 1000;
/** Windows after which a flood that goes on is reported as one that has ended is. */
const LONG_FLOOD_WINDOWS = 10;

/**
 * Counts the events of all jails in one turn of the event loop. A turn reads the kernel's queue until it is empty, so
 * a turn with fewer events than the queue holds has lost none.
 */
export class EventQueue {
  readonly #overflowed: (jails: readonly Jail[]) => void;
  /** Half of the queue: events of folders that are no longer watched fill it too, but are not counted. */
  readonly #limit: number;
  #events = 0;
  readonly #jails = new Map<string, Jail>();

  /** @param overflowed called with the jails that some of the events came from; any other may have lost its own. */
  constructor(overflowed: (jails: readonly Jail[]) => void, length = queueLength()) {
    this.#overflowed = overflowed;
    this.#limit = length / 2;
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
 * Tells whether so much happens in a jail that a comparison of the whole directory, once it is calm, is cheaper than
 * following each hint, and cannot miss anything.
 */
export class Flood {
  readonly #ended: () => void;
  #events = 0;
  #windows = 0;
  #isOn = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(ended: () => void) {
    this.#ended = ended;
  }

  /** While true, hints need not be followed. */
  get isOn(): boolean {
    return this.#isOn;
  }

  heard(): void {
    this.#events += 1;
    this.#isOn ||= this.#events > FOLLOWED_EVENTS;
    this.#timer ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #endWindow(): void {
    this.#timer = undefined;
    const isCalm = this.#events <= FOLLOWED_EVENTS;
    this.#events = 0;
    if (!this.#isOn) return;
    this.#windows += 1;
    if (isCalm || this.#windows % LONG_FLOOD_WINDOWS === 0) this.#ended();
    if (isCalm) {
      this.#isOn = false;
      this.#windows = 0;
    } else this.#timer = setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
  }
}

function queueLength(): number {
  try {
    return Number(readFileSync(QUEUE_LIMIT, 'utf8')) || QUEUE_LENGTH;
  } catch {
    return QUEUE_LENGTH;
  }
}
