/** A clock that stands at a minute's beginning and moves when the test says so; each reading is 1 µs later. */
import type { Clock, Micros } from '../../src/foundation/base/clock.ts';

export interface SetClock extends Clock {
  advance(by: Micros): void;
}

export function setClock(start: Micros = Date.parse('2026-01-02T03:04:00Z') * 1000): SetClock {
  let at = start;
  return {
    now() {
      at += 1;
      return at;
    },
    advance(by) {
      at += by;
    },
  };
}
