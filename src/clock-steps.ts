/** Notices when the wall clock is set, by comparing it with the monotonic one, from the start of the process on. */
import { type Clock, type Micros, SECOND } from './clock.ts';

/** Less than this is drift, which the system corrects bit by bit. */
const TOLERANCE: Micros = SECOND;

/** A monotonic clock in ms, such as `performance.now`. */
export type Monotonic = () => number;

/** A function that says by how much the wall clock was set since its last call, in µs; 0 when it was not. */
export function stepMeter(clock: Clock, monotonic: Monotonic): () => Micros {
  const offsetNow = (): Micros => clock.now() - monotonic() * 1000;
  let offset = offsetNow();
  return () => {
    const before = offset;
    offset = offsetNow();
    return Math.abs(offset - before) > TOLERANCE ? Math.round(offset - before) : 0;
  };
}
