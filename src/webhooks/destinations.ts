/**
 * Gives turns to destinations with due deliveries, and limits how many attempts each may have under way, so that a
 * receiver that does not answer delays only itself.
 *
 * An attempt can hold its slot for 6 s. A destination whose last answer came quickly is *proven* and may use all slots.
 * The others share a part of them, two each, so proven ones find slots however many receivers are dead. A destination
 * that was slow or failed twice in a row, or at its very first attempt, is a *suspect*: all suspects together begin a
 * limited number of attempts a second. Destinations with the same standing take turns, and no standing waits for
 * another.
 */
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
 * Attempts at suspects begin in groups of ten, five groups a second, so most of them also end in groups. A healthy
 * receiver may have to wait for each of their commits.
 */
const GROUP = 10;
const GROUP_MS = 200;
/** How many destinations are remembered. A forgotten one counts as new. */
const REMEMBERED = 10_000;

type Standing = 'proven' | 'new' | 'suspect';
const STANDINGS: readonly Standing[] = ['proven', 'new', 'suspect'];

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

  /** Notes that up to `count` more deliveries are due at a destination. */
  due(name: string, count: number): void {
    const destination = this.#get(name);
    destination.due += count;
    this.#place(destination);
  }

  /** Takes the next turns and their slots. Call `began` or `give` for each. */
  next(): Turn[] {
    const turns: Turn[] = [];
    for (const standing of STANDINGS) {
      let left = Math.min(BEGIN, this.#room(standing));
      for (const destination of this.#lines[standing]) {
        if (left <= 0) break;
        // A suspect gets one attempt per turn, or a few suspects would use up a whole group.
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

  /** Judges a destination by an attempt: `quick` when its answer came within a second. */
  judge(name: string, quick: boolean): void {
    const destination = this.#get(name);
    const { standing, busy } = destination;
    // A healthy receiver may give one bad answer. It must not have to wait among dead ones for that.
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

  /**
   * How many ms are left until there may be a turn: 0 for now, `Infinity` when no turn can come before an attempt ends
   * or a delivery becomes due.
   */
  readyIn(): number {
    const waiting = STANDINGS.filter((standing) => this.#lines[standing].size > 0);
    if (waiting.some((standing) => this.#room(standing) > 0)) return 0;
    // Either only the suspects' pace holds turns back, or the end of an attempt has to free a slot.
    return waiting.includes('suspect') && this.#room('new') > 0
      ? Math.max(1, Math.ceil(this.#groupBegan + GROUP_MS - this.#clock()))
      : Infinity;
  }

  /** How many attempts of that standing may begin now. */
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

  /** Puts a destination at the end of its line when it has due deliveries and a free slot. */
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
    // A destination in use stays, or it would be counted wrongly.
    if (destination.busy > 0 || destination.due > 0) this.#known.set(name, destination);
  }
}

function eachOf(standing: Standing): number {
  return standing === 'proven' ? PROVEN_EACH : UNPROVEN_EACH;
}
