/**
 * Who may have how many attempts under way, so that a receiver that does not answer delays only itself.
 *
 * An attempt can hold its slot for 6 s. A destination whose last answer came quickly is *proven*: it may have more at a
 * time with each quick answer, and all slots are open to it. Any other shares a part of the slots, few each: however
 * many dead ones there are, proven ones find room. One whose last attempt was slow or failed is a *suspect* as well:
 * all of them together begin a bounded number of attempts a second, which bounds the processor time they take.
 */

/** Attempts under way in all: a socket each. */
const TOTAL = 768;
/** … of destinations that are not proven. */
const UNPROVEN_TOTAL = 512;
const UNPROVEN_EACH = 2;
const PROVEN_EACH = 32;
/** Attempts that suspects begin, together: per second, and at once after a pause. */
const SUSPECTS_PER_SECOND = 50;
const SUSPECTS_AT_ONCE = 20;
/** They begin in groups, and so mostly end in groups: each commit for them is one that a healthy receiver may wait for. */
const SUSPECTS_TOGETHER = 10;
/** Destinations remembered; a forgotten one starts as if new. */
const REMEMBERED = 10_000;
const SUSPECT = 0;

export interface Slots {
  /** How many further attempts may begin at this destination now. */
  room(destination: string): number;
  take(destination: string, count: number): void;
  give(destination: string, count: number): void;
  /** What an attempt showed: `quick` when its answer came within a second. */
  judge(destination: string, quick: boolean): void;
  /** When only the pace held suspects back since the last call: ms until it lets the next ones go. */
  heldBackFor(): number | undefined;
}

/** @param clock a clock in ms that nobody sets, such as `performance.now`. */
export function createSlots(clock: () => number): Slots {
  /** What each destination may have at a time, or SUSPECT; the longest unchanged first. */
  const standing = new Map<string, number>();
  const busy = new Map<string, number>();
  let total = 0;
  let unproven = 0;
  let tokens = SUSPECTS_AT_ONCE;
  let counted = clock();
  let heldBack = false;
  let open = true;

  const isProven = (destination: string): boolean => (standing.get(destination) ?? SUSPECT) > 0;
  const refill = (): void => {
    const now = clock();
    tokens = Math.min(SUSPECTS_AT_ONCE, tokens + ((now - counted) / 1000) * SUSPECTS_PER_SECOND);
    counted = now;
  };
  const move = (destination: string, by: number): void => {
    const count = (busy.get(destination) ?? 0) + by;
    if (count > 0) busy.set(destination, count);
    else busy.delete(destination);
    total += by;
    if (!isProven(destination)) unproven += by;
  };
  return {
    room(destination) {
      const own = busy.get(destination) ?? 0;
      const window = standing.get(destination);
      if (window !== undefined && window !== SUSPECT) return Math.max(0, Math.min(window - own, TOTAL - total));
      const room = Math.max(0, Math.min(UNPROVEN_EACH - own, UNPROVEN_TOTAL - unproven, TOTAL - total));
      if (window === undefined || room === 0) return room;
      refill();
      if (tokens < 1) open = false;
      else if (tokens >= SUSPECTS_TOGETHER) open = true;
      if (open) return Math.min(room, Math.floor(tokens));
      heldBack = true;
      return 0;
    },
    take(destination, count) {
      if (standing.get(destination) === SUSPECT) tokens -= count;
      move(destination, count);
    },
    give(destination, count) {
      move(destination, -count);
    },
    judge(destination, quick) {
      const before = standing.get(destination) ?? UNPROVEN_EACH;
      const wasProven = isProven(destination);
      standing.delete(destination);
      standing.set(destination, quick ? Math.min(PROVEN_EACH, Math.max(before, 1) * 2) : SUSPECT);
      if (wasProven !== quick) unproven += (busy.get(destination) ?? 0) * (quick ? -1 : 1);
      const [oldest] = standing.keys();
      // One with attempts under way stays, or those would be counted wrongly.
      if (standing.size > REMEMBERED && oldest !== undefined && !busy.has(oldest)) standing.delete(oldest);
    },
    heldBackFor() {
      if (!heldBack) return undefined;
      heldBack = false;
      refill();
      return Math.max(0, Math.ceil(((SUSPECTS_TOGETHER - tokens) * 1000) / SUSPECTS_PER_SECOND));
    },
  };
}
