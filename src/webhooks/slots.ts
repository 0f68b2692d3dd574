/**
 * How many attempts each destination may have under way, so that a receiver that does not answer delays only itself.
 *
 * An attempt can hold its slot for 6 s. A destination whose last answer came quickly is *proven*: all slots are open to
 * it. The others share a part of them, two each, so proven ones find room however many are dead. One whose last attempt
 * was slow or failed is a *suspect*: all suspects together begin a bounded number of attempts a second.
 */

/** Attempts under way in all: a socket each. */
const TOTAL = 768;
/** … of destinations that are not proven. */
const UNPROVEN_TOTAL = 512;
const UNPROVEN_EACH = 2;
export const PROVEN_EACH = 32;
/**
 * Suspects begin in groups of ten, five a second, and so mostly end in groups: a healthy receiver may have to wait for
 * each commit of theirs.
 */
const GROUP = 10;
const GROUP_MS = 200;
/** Destinations remembered; a forgotten one starts as if new. */
const REMEMBERED = 10_000;

interface Destination {
  readonly standing: 'new' | 'proven' | 'suspect';
  /** Attempts under way. */
  readonly busy: number;
}

const UNKNOWN: Destination = { standing: 'new', busy: 0 };

export interface Slots {
  /** Takes slots for up to `most` further attempts; returns how many. */
  take(destination: string, most: number): number;
  give(destination: string, count: number): void;
  /** What an attempt showed: `quick` when its answer came within a second. */
  judge(destination: string, quick: boolean): void;
  /** When only the pace has held suspects back since the last call: ms until the next group may begin. */
  heldBackFor(): number | undefined;
}

/** @param clock a monotonic clock in ms. */
export function createSlots(clock: () => number): Slots {
  /** The one judged longest ago first. */
  const known = new Map<string, Destination>();
  let total = 0;
  let unproven = 0;
  let groupBegan = Number.NEGATIVE_INFINITY;
  let groupLeft = GROUP;
  let heldBack = false;

  function move(destination: string, by: number): void {
    const { standing, busy } = known.get(destination) ?? UNKNOWN;
    known.set(destination, { standing, busy: busy + by });
    total += by;
    if (standing !== 'proven') unproven += by;
  }

  function room(destination: string): number {
    const { standing, busy } = known.get(destination) ?? UNKNOWN;
    if (standing === 'proven') return Math.min(PROVEN_EACH - busy, TOTAL - total);
    const left = Math.min(UNPROVEN_EACH - busy, UNPROVEN_TOTAL - unproven, TOTAL - total);
    if (standing === 'new' || left <= 0) return left;
    if (clock() - groupBegan >= GROUP_MS) groupLeft = GROUP;
    heldBack ||= groupLeft === 0;
    return Math.min(left, groupLeft);
  }

  return {
    take(destination, most) {
      const count = Math.max(0, Math.min(room(destination), most));
      if (count === 0) return 0;
      if (known.get(destination)?.standing === 'suspect') {
        if (groupLeft === GROUP) groupBegan = clock();
        groupLeft -= count;
      }
      move(destination, count);
      return count;
    },
    give(destination, count) {
      move(destination, -count);
    },
    judge(destination, quick) {
      const { standing, busy } = known.get(destination) ?? UNKNOWN;
      if (quick !== (standing === 'proven')) unproven += quick ? -busy : busy;
      known.delete(destination);
      known.set(destination, { standing: quick ? 'proven' : 'suspect', busy });
      const [oldest] = known;
      // One with attempts under way stays, or those would be counted wrongly.
      if (known.size > REMEMBERED && oldest?.[1].busy === 0) known.delete(oldest[0]);
    },
    heldBackFor() {
      if (!heldBack) return undefined;
      heldBack = false;
      return Math.max(1, Math.ceil(groupBegan + GROUP_MS - clock()));
    },
  };
}
