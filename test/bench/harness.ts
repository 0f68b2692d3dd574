/**
 * What every row of the bench is made of: rounds in which berth and what it is held against take turns, since machines
 * are noisy and only what ran side by side can be compared. Medians and ranges of the rounds are what counts.
 */

/** `tiny` only shows that a bench works: CI runs it, and its figures mean nothing. */
export type Size = 'full' | 'tiny';

export interface Figure {
  /** What was measured, as the table says it. */
  readonly what: string;
  readonly aim: string;
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** `×` is a ratio. */
  readonly unit: '×' | 'ms' | 's' | 'MiB';
  readonly met: boolean;
  /** The figures behind it, for people. */
  readonly detail: string;
}

export interface Bench {
  readonly name: string;
  run(size: Size): Promise<Figure[]>;
}

/** Of the lot, or NaN when there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Runs two measurements in turn, and each of them first every other time. Gives what each returned, round by round. */
export async function inTurns<A, B>(
  rounds: number,
  ours: () => Promise<A>,
  theirs: () => Promise<B>,
): Promise<{ ours: A[]; theirs: B[] }> {
  const results: { ours: A[]; theirs: B[] } = { ours: [], theirs: [] };
  for (let round = 0; round < rounds; round += 1) {
    if (round % 2 === 0) results.theirs.push(await theirs());
    results.ours.push(await ours());
    if (round % 2 === 1) results.theirs.push(await theirs());
  }
  return results;
}

/** `ours` over `theirs`, two rates round by round: `least` is the aim. */
export function rateFigure(
  what: string,
  least: number,
  rates: { readonly ours: readonly number[]; readonly theirs: readonly number[] },
  unit: string,
): Figure {
  const ratios = rates.ours.map((rate, round) => rate / (rates.theirs[round] ?? Number.NaN));
  const ratio = median(ratios);
  return {
    what,
    aim: `≥ ${least.toFixed(2)}`,
    ...spread(ratios),
    unit: '×',
    met: ratio >= least,
    detail: `${short(median(rates.ours))} of ${short(median(rates.theirs))} ${unit}`,
  };
}

/** `large` over `small`, two durations round by round: `most` is the aim. */
export function growthFigure(
  what: string,
  most: number,
  times: { readonly large: readonly number[]; readonly small: readonly number[] },
): Figure {
  const ratios = times.large.map((time, round) => time / (times.small[round] ?? Number.NaN));
  const ratio = median(ratios);
  return {
    what,
    aim: `≤ ${most.toFixed(2)}`,
    ...spread(ratios),
    unit: '×',
    met: ratio <= most,
    detail: `${short(median(times.small))} → ${short(median(times.large))} ms`,
  };
}

/** An absolute figure that has to stay below a bound. */
export function boundFigure(
  what: string,
  most: number,
  values: readonly number[],
  unit: 'ms' | 's' | 'MiB',
  detail = '',
): Figure {
  const middle = median(values);
  return { what, aim: `< ${most} ${unit}`, ...spread(values), unit, met: middle < most, detail };
}

function spread(values: readonly number[]): Pick<Figure, 'median' | 'low' | 'high'> {
  return { median: median(values), low: Math.min(...values), high: Math.max(...values) };
}

/** Three digits that mean something. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return value >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
}
