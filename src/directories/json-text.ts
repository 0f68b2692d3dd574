/**
 * JSON without loss: numbers that JavaScript would change (`1.0`, `12345678901234567890`, `1e400`) keep their text, so
 * that metadata is "stored as given" (specification, field `metadata`).
 */

/** ES2026, in Node 22 and later; TypeScript's library does not know it yet. */
const { rawJSON, isRawJSON } = JSON as typeof JSON & {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

/**
 * Parses JSON; each number that would come out otherwise than it was written becomes an opaque object that
 * `JSON.stringify` writes as it was.
 * @throws {SyntaxError} when it is not JSON; {RangeError} when it is nested too deeply to be read.
 */
export function parseJson(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined && context.source !== String(value)
      ? rawJSON(context.source)
      : value,
  ) as unknown;
}

/** Whether the value stands for a number that JavaScript cannot hold: an object to it, but no object to the caller. */
export function isExactNumber(value: unknown): boolean {
  return isRawJSON(value);
}
