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

/**
 * Replaces each member that is a whole number with a fraction or an exponent (`5.0`, `1.0E7`) by that number: Gson and PHP write
 * whole numbers so. Members of objects in it, such as `metadata`, stay as they were written.
 */
export function withWholeNumbers(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, wholeNumberIn(value) ?? value]));
}

/** The exact value of an opaque number; undefined when it is not a whole number that JavaScript can hold. */
function wholeNumberIn(value: unknown): number | undefined {
  if (!isRawJSON(value)) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i.exec(JSON.stringify(value)) ?? [];
  const digits = `${whole}${fraction}`;
  const point = whole.length + Number(exponent);
  if (/[1-9]/.test(digits.slice(Math.max(point, 0)))) return undefined;
  const number = Number(`${sign}${digits.slice(0, Math.max(point, 0)).padEnd(point, '0') || '0'}`);
  return Number.isSafeInteger(number) ? number + 0 : undefined;
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
