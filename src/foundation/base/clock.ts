/**
 * The server's clock. Everything that stores or compares a time gets a `Clock`, so that tests can set it
 * and no module reads the time at import.
 */

/** A moment in microseconds since 1970-01-01T00:00:00Z. Safe as a number until the year 2255. */
export type Micros = number;

export interface Clock {
  /** The wall clock. Moments of one process are distinct and in order, unless the machine's clock is set back. */
  now(): Micros;
}

/** How far the clock may run ahead of the machine's to keep moments distinct, in µs, before it gives way to it. */
const LEAD_LIMIT = 1_000_000;

/** The machine's wall clock, at the resolution that the kernel gives. */
export function systemClock(): Clock {
  let anchor = performance.timeOrigin;
  let last = 0;
  return {
    now() {
      let ms = anchor + performance.now();
      const wall = Date.now();
      // The monotonic clock does not follow when somebody sets the time: take a new anchor.
      if (Math.abs(ms - wall) > 5) {
        anchor = wall - performance.now();
        ms = wall;
      }
      const micros = Math.round(ms * 1000);
      last = micros > last || last - micros > LEAD_LIMIT ? micros : last + 1;
      return last;
    },
  };
}

/** ISO 8601 in UTC with six decimals, as the specification's conventions ask: `2026-11-20T20:50:00.123456Z`. */
export function formatMicros(at: Micros): string {
  const ms = Math.floor(at / 1000);
  const rest = String(at - ms * 1000).padStart(3, '0');
  return `${new Date(ms).toISOString().slice(0, -1)}${rest}Z`;
}

const TIMESTAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/** The moment of an ISO 8601 time with a zone, to the microsecond; undefined for any other text. */
export function parseMicros(text: string): Micros | undefined {
  const [, seconds, fraction = '', zone] = TIMESTAMP.exec(text) ?? [];
  const ms = parseMs(`${seconds}${zone}`);
  return Number.isNaN(ms) ? undefined : ms * 1000 + Number(fraction.padEnd(6, '0').slice(0, 6));
}

/** Like `Date.parse` for texts that begin with a day such as 2026-11-20, but NaN for the 30th of February, which it takes for March. */
export function parseMs(text: string): number {
  const day = text.slice(0, 10);
  const midnight = Date.parse(day);
  const isDay = !Number.isNaN(midnight) && new Date(midnight).toISOString().slice(0, 10) === day;
  return isDay ? Date.parse(text) : Number.NaN;
}

export const SECOND: Micros = 1_000_000;
export const DAY: Micros = 86_400 * SECOND;

/** Less than this is drift, which the system corrects bit by bit. */
const TOLERANCE: Micros = SECOND;

/** A monotonic clock in ms, such as `performance.now`. */
export type Monotonic = () => number;

/** Returns a function that reports by how much the wall clock was set since its last call, in µs; 0 when it was not. */
export function stepMeter(clock: Clock, monotonic: Monotonic): () => Micros {
  const offsetNow = (): Micros => clock.now() - monotonic() * 1000;
  let offset = offsetNow();
  return () => {
    const before = offset;
    offset = offsetNow();
    return Math.abs(offset - before) > TOLERANCE ? Math.round(offset - before) : 0;
  };
}

/** Whether a key, a link or a directory is no longer valid. `null` never expires. */
export function hasExpired({ expires_at }: { readonly expires_at: Micros | null }, now: Micros): boolean {
  return expires_at !== null && expires_at <= now;
}
