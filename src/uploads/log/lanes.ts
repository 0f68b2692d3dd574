/**
 * Lines of the log that wait to be followed, a lane for each directory, or for a process that has yet to be told to
 * belong to one. Lanes take turns, so that a session that says a lot delays only its own directory. A lane that
 * overflows drops what comes until it is empty.
 */
import { setTimeout } from 'node:timers/promises';
import { yielder } from '../../event-loop.ts';
import type { Line } from './transfer-log-worker.ts';

/** Lines that a lane holds at most. */
const LIMIT = 20_000;

/** Lines of one lane before it is the next one's turn. */
const TURN = 32;

/** How long a lane that has to wait does so, in ms. */
const PAUSE = 5;

/** Something to call when what stood before it in the lane has been followed. */
type Mark = () => void;

class Lane {
  readonly key: string;
  #queue: (Line | Mark)[] = [];
  #head = 0;
  /** Whether lines have been dropped. */
  hasLost = false;
  isPaused = false;
  #marks = 0;

  constructor(key: string) {
    this.key = key;
  }

  get isEmpty(): boolean {
    return this.#head === this.#queue.length;
  }

  push(item: Line | Mark): void {
    if (typeof item === 'function') this.#marks += 1;
    else if (this.hasLost || this.#queue.length - this.#head >= LIMIT) {
      this.hasLost = true;
      return;
    }
    this.#queue.push(item);
  }

  /** Whether something waits for its lines to be followed. */
  get isAwaited(): boolean {
    return this.#marks > 0;
  }

  /** The next line; marks on the way to it are passed. */
  next(): Line | undefined {
    while (!this.isEmpty) {
      const item = this.#queue[this.#head];
      this.#head += 1;
      if (typeof item !== 'function') return item;
      this.#marks -= 1;
      item();
    }
    this.#clear();
    return undefined;
  }

  /** Moves all that waits here to the end of another lane. */
  drainTo(other: Lane): void {
    for (const item of this.#queue.slice(this.#head)) other.push(item);
    this.#clear();
    other.hasLost ||= this.hasLost;
  }

  #clear(): void {
    this.#queue = [];
    this.#head = 0;
    this.#marks = 0;
  }
}

export interface LanesOptions {
  /** The id of the directory that the process's session belongs to. */
  directoryOf(pid: number): string | undefined;
  /** Follows a line. Must not throw. Returns something to wait for when that may tell whose process it is. */
  follow(line: Line): Promise<void> | undefined;
  /** Whether the directory's lines have to wait. */
  isBusy(directoryId: string): boolean;
  /** Lines about the directory were dropped. */
  lost(directoryId: string): void;
}

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #inTurn = new Set<Lane>();
  #running: Promise<void> | undefined;

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  push(line: Line): void {
    this.#take(this.#laneOf(line.pid), line);
  }

  /** Resolves when all has been followed that waits now and may be about the directory. */
  async passed(directoryId: string): Promise<void> {
    const lanes = [...this.#lanes.values()].filter(({ key }) => key === directoryId || key.startsWith(PROCESS));
    await Promise.all(lanes.map((lane) => new Promise<void>((resolve) => this.#take(lane, resolve))));
  }

  /** Resolves when no line is being followed; undefined when none is. */
  get running(): Promise<void> | undefined {
    return this.#running;
  }

  #laneOf(pid: number): Lane {
    const key = this.#options.directoryOf(pid) ?? `${PROCESS}${pid}`;
    const lane = this.#lanes.get(key) ?? new Lane(key);
    this.#lanes.set(key, lane);
    return lane;
  }

  #take(lane: Lane, item: Line | Mark): void {
    lane.push(item);
    this.#goOn(lane);
  }

  #goOn(lane: Lane): void {
    if (lane.isPaused) return;
    this.#inTurn.add(lane);
    this.#running ??= this.#run();
  }

  async #pause(lane: Lane): Promise<void> {
    lane.isPaused = true;
    await setTimeout(PAUSE, undefined, { ref: false });
    lane.isPaused = false;
    this.#goOn(lane);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // so that it has begun before it ends
    const pause = yielder();
    for (const lane of this.#inTurn) {
      this.#inTurn.delete(lane);
      const isBusy = this.#options.isBusy(lane.key);
      // What keeps the directory busy may wait for these very lines: they are only slowed down then.
      if (!isBusy || lane.isAwaited) await this.#turn(lane, pause);
      if (!lane.isEmpty) {
        if (isBusy) void this.#pause(lane);
        else this.#inTurn.add(lane);
      } else this.#end(lane);
    }
    this.#running = undefined;
  }

  #end(lane: Lane): void {
    if (this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key);
    if (!lane.hasLost) return;
    lane.hasLost = false;
    this.#options.lost(lane.key);
  }

  async #turn(lane: Lane, pause: () => Promise<void> | undefined): Promise<void> {
    for (let left = TURN; left > 0; left -= 1) {
      const line = lane.next();
      if (!line) return;
      const learning = this.#options.follow(line);
      if (learning) {
        await learning;
        this.#join(lane, this.#laneOf(line.pid));
      }
      const rest = pause();
      if (rest) await rest;
    }
  }

  /** What else the process said goes to its directory's lane. */
  #join(lane: Lane, other: Lane): void {
    if (other === lane) return;
    lane.drainTo(other);
    this.#goOn(other);
  }
}

const PROCESS = 'process ';
