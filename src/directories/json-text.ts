/**
 * Parses JSON without loss: numbers that JavaScript would change (`1.0`, `12345678901234567890`, `1e400`) keep their text,
 * so that metadata is "stored as given" (specification, field `metadata`).
 */

/** ES2026, in Node 22 and later; TypeScript's library does not know it yet. */
const { rawJSON, isRawJSON } = JSON as typeof JSON & {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

/**
 * Levels of arrays and objects (RFC 8259, section 9, allows a limit). It is half of what a request's stack can take, so that
 * the limit is the same everywhere, and whatever was parsed can be written again.
 */
const DEEPEST = 1000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/**
 * Parses JSON. A number that would not keep its text becomes an opaque object, which `JSON.stringify` writes as it was.
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

/** Whether the value stands for a number that JavaScript cannot hold. Its type is object, but callers must not treat it as one. */
export function isExactNumber(value: unknown): boolean {
  return isRawJSON(value);
}
