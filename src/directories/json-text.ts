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
 * Levels of arrays and objects (RFC 8259, section 9, allows a limit): half of what the stack of a request takes, so that it is
 * the same everywhere, and what was read can be written.
 */
const DEEPEST = 1000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/**
 * Parses JSON; each number that would come out otherwise than it was written becomes an opaque object that
 * `JSON.stringify` writes as it was.
 * @throws {SyntaxError} when it is not JSON; {RangeError} when it is nested too deeply.
 */
export function parseJson(text: string): unknown {
  if (isTooDeep(text)) throw new RangeError(`nested more than ${DEEPEST} levels deep`);
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined && context.source !== String(value)
      ? rawJSON(context.source)
      : value,
  ) as unknown;
}

function isTooDeep(text: string): boolean {
  if (text.length <= 2 * DEEPEST) return false;
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length && depth <= DEEPEST; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) isQuoted = !isQuoted;
    else if (isQuoted) at += code === BACKSLASH ? 1 : 0;
    else if (OPENING.has(code)) depth += 1;
    else if (CLOSING.has(code)) depth -= 1;
  }
  return depth > DEEPEST;
}

/** Whether the value stands for a number that JavaScript cannot hold: an object to it, but no object to the caller. */
export function isExactNumber(value: unknown): boolean {
  return isRawJSON(value);
}
