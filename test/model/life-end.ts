/** When `serve` is killed, and how long it is away; or the machine, with all that was not synced. */
export interface LifeEnd {
  /** In µs since the beginning of the story, as all times here. */
  readonly at: number;
  readonly away: number;
  readonly what: 'serve' | 'power';
}

/** Whether `serve` is away at some time from then on. */
export function isAwayWithin(ends: readonly LifeEnd[], from: number, us: number): boolean {
  return ends.some(({ at, away }) => from <= at + away && from + us >= at);
}
