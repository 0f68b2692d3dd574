/**
 * Time as this process feels it, for upper bounds: a stretch in which a busy machine gives it no turn counts as one tick.
 * Timers of the same process are as late as its ticks, so they do not seem late by it.
 */
const TICK = 10;

export interface FeltTime extends Disposable {
  /** Since it was made, in ms; never more than by the clock. */
  elapsed(): number;
}

export function feltTime(): FeltTime {
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), TICK).unref();
  return { elapsed: () => ticks * TICK, [Symbol.dispose]: () => clearInterval(timer) };
}
