/**
 * Gives turns to destinations with due deliveries, and limits how many attempts each may have under way, so that a
 * receiver that does not answer delays only itself.
 *
 * An attempt can hold its slot for 6 s. A destination whose last answer came quickly is *proven* and may use all slots.
 * The others share a part of them, two each, so proven ones find slots however many receivers are dead. A destination
 * whose answers were not quick twice in a row, or at its very first attempt, is paced: *slow* if its last answer came
 * late, *silent* if none came. All paced ones together begin a limited number of attempts a second, slow and silent ones
 * alternately, so that a slow receiver does not wait behind dead ones. Destinations with the same standing take turns,
 * those with few due deliveries first, and neither proven nor new ones wait for another standing.
 */
import { Turns } from '../../foundation/base/turns.ts';
import type { Turn } from './queue.ts';

/** How many attempts may be under way in all. Each uses a socket. */
const TOTAL = 768;
/** How many attempts to destinations that are not proven may be under way in all. */
const UNPROVEN_TOTAL = 512;
export const PROVEN_EACH = 32;
const UNPROVEN_EACH = 2;
/**
 * How many attempts of one standing begin with one commit. The number is small, so that new deliveries do not wait for
 * a long commit.
 */
const BEGIN = 32;
/**
 * Attempts at paced destinations begin in groups of ten, five groups a second, so most of them also end in groups. A
 * healthy receiver may have to wait for each of their commits.
 */
const GROUP = 10;
const GROUP_MS = 200;
/** How many destinations are remembered. A forgotten one counts as new. */
const REMEMBERED = 10_000;

type Unpaced = 'proven' | 'new';
type Paced = 'slow' | 'silent';
type Standing = Unpaced | Paced;

/** How an attempt was answered: within a second, later, or not at all. */
export type Verdict = 'quick' | Paced;

interface Destination {
  readonly name: string;
  standing: Standing;
  /** Attempts under way. */
  busy: number;
  /** An upper bound of the deliveries that are due. */
  due: number;
}

export class Destinations {
  readonly #clock: () => number;
  /** Destinations by name, the one judged longest ago first. */
  readonly #known = new Map<string, Destination>();
  /** Destinations that have due deliveries and a free slot, in the order of their turns. */
  readonly #lines: Readonly<Record<Standing, Turns<Destination>>> = {
    proven: new Turns(),
    new: new Turns(),
    slow: new Turns(),
    silent: new Turns(),
  };
  #total = 0;
  #unproven = 0;
  #groupBegan = Number.NEGATIVE_INFINITY;
  #groupLeft = GROUP;
  /** The paced standing whose turn was last. */
  #lastPaced: Paced = 'silent';

  /** @param clock a monotonic clock in ms. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Notes that up to `count` more deliveries are due at a destination. */
  due(name: string, count: number): void {
    const destination = this.#get(name);
    destination.due += count;
    this.#place(destination);
  }

  /** Takes the next turns and their slots. Call `began` or `give` for each. */
  next(): Turn[] {
    return [...this.#unpacedTurns('proven'), ...this.#unpacedTurns('new'), ...this.#pacedTurns()];
  }

  #unpacedTurns(standing: Unpaced): Turn[] {
    const turns: Turn[] = [];
    for (let left = Math.min(BEGIN, this.#room(standing)); left > 0;) {
      const destination = this.#lines[standing].take();
      if (!destination) break;
      const count = Math.min(destination.due, left, eachOf(standing) - destination.busy);
      left -= count;
      turns.push(this.#take(destination, count));
    }
    return turns;
  }

  /** One attempt per turn, or a few destinations would use up a whole group. */
  #pacedTurns(): Turn[] {
    const turns: Turn[] = [];
    for (let left = this.#pacedRoom(); left > 0; left -= 1) {
      const destination = this.#nextPaced();
      if (!destination) break;
      this.#countInGroup();
      turns.push(this.#take(destination, 1));
    }
    return turns;
  }

  #nextPaced(): Destination | undefined {
    const other: Paced = this.#lastPaced === 'slow' ? 'silent' : 'slow';
    if (this.#lines[other].size > 0) this.#lastPaced = other;
    return this.#lines[this.#lastPaced].take();
  }

  #take(destination: Destination, count: number): Turn {
    this.#move(destination, count);
    return { destination: destination.name, count };
  }

  /**
   * Reports how many attempts a turn has begun. Fewer than the turn allowed mean that nothing more is due at the
   * destination.
   */
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

  judge(name: string, verdict: Verdict): void {
    const destination = this.#get(name);
    const { standing, busy } = destination;
    // A healthy receiver may give one bad answer. It must not have to wait among the paced ones for that.
    const judged = verdict === 'quick' ? 'proven' : standing === 'proven' ? 'new' : verdict;
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

  /**
   * How many ms are left until there may be a turn: 0 for now, `Infinity` when no turn can come before an attempt ends
   * or a delivery becomes due.
   */
  readyIn(): number {
    const { proven, new: fresh, slow, silent } = this.#lines;
    const isPacedWaiting = slow.size + silent.size > 0;
    if (proven.size > 0 && this.#room('proven') > 0) return 0;
    if (fresh.size > 0 && this.#room('new') > 0) return 0;
    if (isPacedWaiting && this.#pacedRoom() > 0) return 0;
    // Either only the pace holds turns back, or the end of an attempt has to free a slot.
    return isPacedWaiting && this.#room('new') > 0
      ? Math.max(1, Math.ceil(this.#groupBegan + GROUP_MS - this.#clock()))
      : Infinity;
  }

  /** How many attempts of that standing may begin now. */
  #room(standing: Unpaced): number {
    const room = TOTAL - this.#total;
    return standing === 'proven' ? room : Math.min(room, UNPROVEN_TOTAL - this.#unproven);
  }

  #pacedRoom(): number {
    if (this.#clock() - this.#groupBegan >= GROUP_MS) this.#groupLeft = GROUP;
    return Math.min(this.#room('new'), this.#groupLeft);
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

  /** Puts a destination in its line when it has due deliveries and a free slot. */
  #place(destination: Destination): void {
    const { name, standing, busy, due } = destination;
    if (due > 0 && busy < eachOf(standing)) this.#lines[standing].add(destination, due);
    if (standing === 'new' && busy === 0 && due === 0) this.#known.delete(name);
  }

  #forgetOne(): void {
    const [oldest] = this.#known;
    if (this.#known.size <= REMEMBERED || !oldest) return;
    const [name, destination] = oldest;
    this.#known.delete(name);
    // A destination in use stays, or it would be counted wrongly.
    if (destination.busy > 0 || destination.due > 0) this.#known.set(name, destination);
  }
}

function eachOf(standing: Standing): number {
  return standing === 'proven' ? PROVEN_EACH : UNPROVEN_EACH;
}
