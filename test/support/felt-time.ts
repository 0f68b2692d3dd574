/**
 * Time as this process experiences it, for upper bounds: an interval in which a busy machine does not run it counts as one
 * tick. Timers of the same process are as late as its ticks, so they do not seem late by it.
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
