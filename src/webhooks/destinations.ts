/**
 * Whose turn it is: the destinations that have something due, and how many attempts each may have under way, so that a
 * receiver that does not answer delays only itself.
 *
 * An attempt can hold its slot for 6 s. A destination whose last answer came quickly is *proven*: all slots are open to
 * it. The others share a part of them, two each, so proven ones find room however many are dead. One that was slow or
 * failed twice in a row, or at its very first attempt, is a *suspect*: all of them together begin a bounded number of
 * attempts a second. Destinations of a standing take turns, and no standing waits for another.
 */
import type { Turn } from './queue.ts';

/** Attempts under way in all: a socket each. */
const TOTAL = 768;
/** … of destinations that are not proven. */
const UNPROVEN_TOTAL = 512;
export const PROVEN_EACH = 32;
const UNPROVEN_EACH = 2;
/** Attempts of a standing that begin with one commit: few, so that what just became due does not wait for a long one. */
const BEGIN = 32;
/**
 * Suspects begin in groups of ten, five a second, and so mostly end in groups: a healthy receiver may have to wait for
 * each commit of theirs.
 */
const GROUP = 10;
const GROUP_MS = 200;
/** Destinations remembered; a forgotten one starts as if new. */
const REMEMBERED = 10_000;

type Standing = 'proven' | 'new' | 'suspect';
const STANDINGS: readonly Standing[] = ['proven', 'new', 'suspect'];

interface Destination {
  readonly name: string;
  standing: Standing;
  /** Attempts under way. */
  busy: number;
  /** Deliveries due, at most. */
  due: number;
}

export class Destinations {
  readonly #clock: () => number;
  /** The one judged longest ago first. */
  readonly #known = new Map<string, Destination>();
  /** Those that have something due and a slot of their own free, the next one first. */
  readonly #lines: Readonly<Record<Standing, Set<Destination>>> = {
    proven: new Set(),
    new: new Set(),
    suspect: new Set(),
  };
  #total = 0;
  #unproven = 0;
  #groupBegan = Number.NEGATIVE_INFINITY;
  #groupLeft = GROUP;

  /** @param clock a monotonic clock in ms. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** So many more deliveries are due there, at most. */
  due(name: string, count: number): void {
    const destination = this.#get(name);
    destination.due += count;
    this.#place(destination);
  }

  /** The next turns, with their slots taken, which `began` or `give` has to be told of. */
  next(): Turn[] {
    const turns: Turn[] = [];
    for (const standing of STANDINGS) {
      let left = Math.min(BEGIN, this.#room(standing));
      for (const destination of this.#lines[standing]) {
        if (left <= 0) break;
        // Suspects one at a time, or a few of them would have a whole group.
        const most = standing === 'suspect' ? 1 : left;
        const count = Math.min(destination.due, most, eachOf(standing) - destination.busy);
        if (standing === 'suspect') this.#countInGroup();
        left -= count;
        this.#lines[standing].delete(destination);
        this.#move(destination, count);
        turns.push({ destination: destination.name, count });
      }
    }
    return turns;
  }

  /** What came of a turn: how many attempts have begun. Fewer than there might have been mean that nothing more is due there. */
  began({ destination: name, count }: Turn, begun: number): void {
    const destination = this.#get(name);
    destination.due = begun < count ? 0 : destination.due - begun;
    this.give(name, count - begun);
  }

  /** Gives slots back. */
  give(name: string, count: number): void {
    const destination = this.#get(name);
    this.#move(destination, -count);
    this.#place(destination);
  }

  /** What an attempt showed: `quick` when its answer came within a second. */
  judge(name: string, quick: boolean): void {
    const destination = this.#get(name);
    const { standing, busy } = destination;
    // One bad answer may happen to a receiver that works: it must not wait among the dead ones for that.
    const judged = quick ? 'proven' : standing === 'proven' ? 'new' : 'suspect';
    if (judged !== standing) {
      this.#lines[standing].delete(destination);
      this.#move(destination, -busy);
      destination.standing = judged;
      this.#move(destination, busy);
    }
    this.#known.delete(name);
    this.#known.set(name, destination);
    this.#place(destination);
    this.#forgetOne();
  }

  /** In how many ms there may be a turn: 0 for now, infinite when there is none before something else happens. */
  readyIn(): number {
    const waiting = STANDINGS.filter((standing) => this.#lines[standing].size > 0);
    if (waiting.some((standing) => this.#room(standing) > 0)) return 0;
    // Only the pace holds them back, or else the end of an attempt makes room.
    return waiting.includes('suspect') && this.#room('new') > 0
      ? Math.max(1, Math.ceil(this.#groupBegan + GROUP_MS - this.#clock()))
      : Infinity;
  }

  /** How many attempts of that standing may begin. */
  #room(standing: Standing): number {
    const room = TOTAL - this.#total;
    if (standing === 'proven') return room;
    const unproven = Math.min(room, UNPROVEN_TOTAL - this.#unproven);
    if (standing === 'new') return unproven;
    if (this.#clock() - this.#groupBegan >= GROUP_MS) this.#groupLeft = GROUP;
    return Math.min(unproven, this.#groupLeft);
  }

  #countInGroup(): void {
    if (this.#groupLeft === GROUP) this.#groupBegan = this.#clock();
    this.#groupLeft -= 1;
  }

  #get(name: string): Destination {
    let destination = this.#known.get(name);
    if (!destination) {
      destination = { name, standing: 'new', busy: 0, due: 0 };
      this.#known.set(name, destination);
    }
    return destination;
  }

  #move(destination: Destination, by: number): void {
    destination.busy += by;
    this.#total += by;
    if (destination.standing !== 'proven') this.#unproven += by;
  }

  /** Puts it into its line, behind the others, when it has something due and a slot. */
  #place(destination: Destination): void {
    const { name, standing, busy, due } = destination;
    if (due > 0 && busy < eachOf(standing)) this.#lines[standing].add(destination);
    if (standing === 'new' && busy === 0 && due === 0) this.#known.delete(name);
  }

  #forgetOne(): void {
    const [oldest] = this.#known;
    if (this.#known.size <= REMEMBERED || !oldest) return;
    const [name, destination] = oldest;
    this.#known.delete(name);
    // What is in use stays, or it would be counted wrongly.
    if (destination.busy > 0 || destination.due > 0) this.#known.set(name, destination);
  }
}

function eachOf(standing: Standing): number {
  return standing === 'proven' ? PROVEN_EACH : UNPROVEN_EACH;
}
