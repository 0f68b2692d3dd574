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

/** Between two turns of a busy directory's lane, in ms. */
const PAUSE = 5;

/** How the key of a process's lane begins. */
const PROCESS = 'process ';

/** Something to call when what stood before it in the lane has been followed. */
type Mark = () => void;

interface Lane {
  readonly key: string;
  readonly items: (Line | Mark)[];
  /** Whether lines have been dropped. */
  hasLost: boolean;
  isPaused: boolean;
}

export interface LanesOptions {
  /** The id of the directory that the process's session belongs to. */
  directoryOf(pid: number): string | undefined;
  /** Follows a line. Returns something to wait for when that may tell whose process it is. */
  follow(line: Line): Promise<void> | undefined;
  /** A line could not be followed. */
  failed(error: unknown): void;
  /** Whether the directory's lines should come slowly. */
  isBusy(directoryId: string): boolean;
  /** Lines about the directory were dropped. */
  lost(directoryId: string): void;
}

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #inTurn = new Set<Lane>();
  /** Resolves when no lane has a turn; undefined when none has. */
  running: Promise<void> | undefined;

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  push(line: Line): void {
    this.#add(this.#laneOf(line.pid), line);
  }

  /** Resolves when all has been followed that waits now and may be about the directory. */
  async passed(directoryId: string): Promise<void> {
    const lanes = [...this.#lanes.values()].filter(({ key }) => key === directoryId || key.startsWith(PROCESS));
    await Promise.all(lanes.map((lane) => new Promise<void>((resolve) => this.#add(lane, resolve))));
  }

  /** Lines that wait to be followed behind which one of that process would. */
  waiting(pid: number): number {
    return this.#lanes.get(this.#keyOf(pid))?.items.length ?? 0;
  }

  #keyOf(pid: number): string {
    return this.#options.directoryOf(pid) ?? `${PROCESS}${pid}`;
  }

  #laneOf(pid: number): Lane {
    const key = this.#keyOf(pid);
    const lane = this.#lanes.get(key) ?? { key, items: [], hasLost: false, isPaused: false };
    this.#lanes.set(key, lane);
    return lane;
  }

  #add(lane: Lane, item: Line | Mark): void {
    if (typeof item !== 'function' && (lane.hasLost || lane.items.length >= LIMIT)) lane.hasLost = true;
    else lane.items.push(item);
    this.#goOn(lane);
  }

  #goOn(lane: Lane): void {
    if (lane.isPaused) return;
    this.#inTurn.add(lane);
    this.running ??= this.#run();
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // so that it has begun before it ends
    const pause = yielder();
    for (const lane of this.#inTurn) {
      this.#inTurn.delete(lane);
      const isBusy = this.#options.isBusy(lane.key);
      // A busy directory's looks may wait for these very lines, which are only slowed down then.
      if (!isBusy || lane.items.some((item) => typeof item === 'function')) await this.#turn(lane, pause);
      if (lane.items.length === 0) this.#end(lane);
      else if (isBusy) void this.#pause(lane);
      else this.#inTurn.add(lane);
    }
    this.running = undefined;
  }

  async #turn(lane: Lane, pause: () => Promise<void> | undefined): Promise<void> {
    for (let left = TURN; left > 0; left -= 1) {
      const item = lane.items.shift();
      if (!item) return;
      if (typeof item === 'function') {
        item();
        continue;
      }
      try {
        const learning = this.#options.follow(item);
        if (learning) {
          await learning;
          this.#join(lane, this.#laneOf(item.pid));
        }
      } catch (error) {
        this.#options.failed(error);
      }
      const rest = pause();
      if (rest) await rest;
    }
  }

  /** What else the process said goes to its directory's lane. */
  #join(lane: Lane, other: Lane): void {
    if (other === lane) return;
    for (const item of lane.items.splice(0)) this.#add(other, item);
    other.hasLost ||= lane.hasLost;
  }

  async #pause(lane: Lane): Promise<void> {
    lane.isPaused = true;
    await setTimeout(PAUSE, undefined, { ref: false });
    lane.isPaused = false;
    this.#goOn(lane);
  }

  #end(lane: Lane): void {
    if (this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key);
    if (lane.hasLost) this.#options.lost(lane.key);
    lane.hasLost = false;
  }
}
