/** The machine's clock as if somebody had set it: always ahead of it by `offset`, in µs. */
import { type Clock, type Micros, systemClock } from '../../src/foundation/base/clock.ts';

export interface MovedClock extends Clock {
  offset: Micros;
}

export function movedClock(): MovedClock {
  const system = systemClock();
  return {
    offset: 0,
    now() {
      return system.now() + this.offset;
    },
  };
}
