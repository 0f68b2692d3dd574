/** The smallest value that this share of the values does not exceed (nearest rank); NaN for none. */
export function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * part) - 1] ?? Number.NaN;
}
