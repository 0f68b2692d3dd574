/** What is to be done in one directory: lines that its story has not interpreted, and its agenda. */
import type { Jail } from '../jails.ts';
import type { Agenda } from './agenda.ts';
import type { Look, Task } from './jobs.ts';
import type { Story } from './story.ts';

/**
 * How many lines of one directory are interpreted before the next directory's turn, unless the slice is over before, and how many
 * between two looks at the clock.
 */
const LINES = 64;
const STEP = 8;

export interface WorkOptions {
  readonly jail: Jail;
  readonly story: Story;
  readonly agenda: Agenda;
  /** A monotonic clock, in ms. */
  monotonic(): number;
}

/** Operations and looks that one transaction may apply. */
export interface Portion {
  readonly tasks: readonly Task[];
  readonly looks: readonly Look[];
  /** When there is more, by the monotonic clock in ms; `Infinity` when only an event brings more. */
  readonly next: number;
}

export class Work {
  readonly jail: Jail;
  readonly story: Story;
  readonly agenda: Agenda;
  readonly #monotonic: () => number;
  /** Callers that wait until a line has been read. */
  #waiters: { readonly line: number; readonly resolve: () => void }[] = [];

  constructor({ jail, story, agenda, monotonic }: WorkOptions) {
    this.jail = jail;
    this.story = story;
    this.agenda = agenda;
    this.#monotonic = monotonic;
  }

  /** How many lines and operations wait. */
  get amount(): number {
    return this.story.waiting + this.agenda.operations;
  }

  /** The same, with looks that are due, counted up to `most`. */
  pending(now: number, most: number): number {
    const { amount } = this;
    return amount + this.agenda.dueLooks(now, most - amount);
  }

  /** Whether there is nothing to do and no state to keep. */
  get isOver(): boolean {
    const { story, agenda } = this;
    return story.isEmpty && agenda.operations + agenda.looks === 0 && this.#waiters.length === 0;
  }

  /** Resolves once every line that was added before the call has been interpreted; undefined if that is so already. */
  read(): Promise<void> | undefined {
    const line = this.story.taken;
    return this.story.hasRead(line) ? undefined : new Promise((resolve) => this.#waiters.push({ line, resolve }));
  }

  /**
   * Interprets lines, and takes operations and looks that are due.
   * @param until when to stop interpreting, by the monotonic clock in ms.
   */
  take(limit: number, now: number, until: number): Portion {
    const { agenda } = this;
    const readOn = this.#interpret(until);
    this.#tellWaiters();
    const tasks = agenda.takeTasks(limit);
    const isBehind = this.amount > 0;
    const looks = agenda.takeLooks(limit - tasks.length, now, isBehind);
    const isFull = tasks.length + looks.length === limit;
    const next = Math.min(isFull ? now : Infinity, readOn ?? Infinity, agenda.nextLook(isBehind) ?? Infinity);
    return { tasks, looks, next };
  }

  /** Returns when to continue, or undefined when no line is left. */
  #interpret(until: number): number | undefined {
    let next: number | undefined;
    for (let left = LINES, now = 0; left > 0 && now < until; left -= STEP) {
      next = this.story.advance(STEP);
      now = this.#monotonic();
      if (next === undefined || next > now) break;
    }
    return next;
  }

  #tellWaiters(): void {
    if (this.#waiters.length === 0) return;
    for (const { line, resolve } of this.#waiters) if (this.story.hasRead(line)) resolve();
    this.#waiters = this.#waiters.filter(({ line }) => !this.story.hasRead(line));
  }
}
