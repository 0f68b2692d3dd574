/**
 * The parts of every row of the bench. The berths that are measured, and a plain sshd, take turns in each round, since
 * machines are noisy and only what ran side by side can be compared; medians and ranges of the rounds are what counts.
 */
import { POSTGRES, type Tree } from './berths.ts';

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
  readonly unit: '×' | 'ms' | 's' | 'MiB' | 'MB/s' | '/s';
  readonly met: boolean;
  /** The figures behind it, for people. */
  readonly detail: string;
  /** SQLite when left out. */
  readonly database?: 'PostgreSQL';
}

export interface Bench {
  readonly name: string;
  /** Whether it measures berths of this process's database, whatever the trees. */
  readonly isOfThisProcess?: boolean;
  /** Measures each figure of berth once for each of these trees. */
  run(size: Size, trees: readonly Tree[]): Promise<Figure[]>;
}

/** The percentile of all values, or NaN when there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Measures each side once a round, and alternates which is first. Returns the results by side and round. */
export async function inTurns<S, R>(
  rounds: number,
  sides: readonly S[],
  measure: (side: S, round: number) => Promise<R>,
): Promise<R[][]> {
  const results = sides.map((): R[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (let i = 0; i < sides.length; i += 1) {
      const index = (i + round) % sides.length;
      const side = sides[index];
      if (side !== undefined) results[index]?.push(await measure(side, round));
    }
  }
  return results;
}

export interface Aim {
  readonly least?: number;
  readonly most?: number;
}

/** A figure: its values by round, and what its median has to reach. */
export function figure(
  what: string,
  unit: Figure['unit'],
  { least, most }: Aim,
  values: readonly number[],
  detail = '',
): Figure {
  const middle = median(values);
  const bound = [least === undefined ? '' : `≥ ${short(least)}`, most === undefined ? '' : `≤ ${short(most)}`];
  return {
    what,
    aim: bound.filter(Boolean).join(', '),
    median: middle,
    low: Math.min(...values),
    high: Math.max(...values),
    unit,
    met: middle >= (least ?? -Infinity) && middle <= (most ?? Infinity),
    detail,
  };
}

/** The same figure of each tree. */
export function figures(
  what: string,
  unit: Figure['unit'],
  aim: Aim,
  trees: readonly Tree[],
  values: readonly (readonly number[])[],
): Figure[] {
  return trees.map((tree, index) => ofTree(figure(what, unit, aim, values[index] ?? []), tree, trees));
}

/** With the tree's name, unless it is the only one, on either database. */
export function ofTree(made: Figure, tree: Tree, trees: readonly Tree[]): Figure {
  const named = trees.filter((each) => !each.includes(POSTGRES)).length > 1;
  const what = named ? `${made.what} – ${tree.join(' ')}` : made.what;
  return { ...made, what, ...(tree.includes(POSTGRES) && { database: 'PostgreSQL' }) };
}

/** `large` over `small`, two durations round by round: `most` is the aim. */
export function growthFigure(
  what: string,
  most: number,
  times: { readonly large: readonly number[]; readonly small: readonly number[] },
): Figure {
  const ratios = times.large.map((time, round) => time / (times.small[round] ?? Number.NaN));
  return figure(what, '×', { most }, ratios, `${short(median(times.small))} → ${short(median(times.large))} ms`);
}

/** Three digits that mean something. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return value >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
}
