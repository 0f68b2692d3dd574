/**
 * The parts of request schemas, with the problem that each reports (`problems.ts`).
 *
 * The same schemas validate requests and make openapi.json. So each action either converts to JSON Schema or is followed by metadata
 * that says the same (http/openapi/json-schema.ts checks this). Lengths count code points, as in JSON Schema. Text has to be storable
 * anywhere: well-formed Unicode without NUL.
 */
import * as v from 'valibot';
import { parseMicros } from './clock.ts';
import type { FieldProblem } from './problems.ts';
import { ValidationError } from './errors.ts';

/** A problem as the message of a schema, which has to be text. `checked` turns it back. */
export const because = (...problem: FieldProblem): string => JSON.stringify(problem);

export const INVALID = because('invalid');

/** An id: 36 characters. */
export const UUID = /^[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}$/;

/** The message for a value of the wrong type, or for a missing one. */
export const orBlank = ({ input }: { readonly input: unknown }): string =>
  input === null || input === undefined ? because('blank') : INVALID;

/** At most `limit` code points. To be spread into a pipe, like `storable`. */
export const atMost = (limit: number) =>
  [
    v.check<string, string>((text) => Array.from(text).length <= limit, because('too_long', limit, 'character')),
    v.metadata<string, { readonly maxLength: number }>({ maxLength: limit }),
  ] as const;

export const storable = [
  v.check<string, string>((text) => text.isWellFormed() && !text.includes('\0'), INVALID),
  v.metadata<string, { readonly pattern: string }>({ pattern: '^[^\\u0000]*$' }),
] as const;

/** A line that people type. A control character would garble the terminal, the log or the mail that shows it. */
export const line = [
  v.check<string, string>((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), INVALID),
  v.metadata<string, { readonly pattern: string }>({ pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' }),
] as const;

/** Like `line`, for paragraphs: they have line ends, and tabs that were pasted. */
export const paragraphs = [
  v.check<string, string>((text) => text.isWellFormed() && !/[^\P{Cc}\t\n\r]/u.test(text), INVALID),
  v.metadata<string, { readonly pattern: string }>({
    pattern: '^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$',
  }),
] as const;

/** At least one character that is not white space. */
export const filled = v.regex<string, string>(/\S/, because('blank'));

/** A name: a line that is not blank. In a pipe that ends at the first problem, so that a blank one has one message. */
export const nameLine = [
  v.check<string, string>((text) => /\S/.test(text), because('blank')),
  v.metadata<string, { readonly allOf: readonly { readonly pattern: string }[] }>({ allOf: [{ pattern: '\\S' }] }),
  ...line,
] as const;

/** @param kind `line` or `paragraphs`. */
export const optionalText = (limit: number, kind: typeof line | typeof paragraphs) =>
  v.nullable(v.pipe(v.string(INVALID), ...kind, ...atMost(limit)));

/** Reports one problem at a time: a value that is not a whole number is not compared to the bounds. */
export const wholeNumber = (min: number, max: number) =>
  v.config(
    v.pipe(
      v.number(orBlank),
      v.safeInteger(INVALID),
      v.minValue(min, because('too_small', min)),
      v.maxValue(max, because('too_large', max)),
    ),
    { abortPipeEarly: true },
  );

/** Like `wholeNumber`, for a query, where every value is text. */
export const wholeNumberText = (min: number, max: number) =>
  v.pipe(
    v.string(),
    v.check((text) => /^-?\d{1,9}$/.test(text), INVALID),
    v.metadata({ type: 'integer', minimum: min, maximum: max }),
    v.transform(Number),
    v.minValue(min, because('too_small', min)),
    v.maxValue(max, because('too_large', max)),
  );

/** A moment in ISO 8601, as µs since 1970. */
export const timestamp = v.pipe(
  v.string(({ input }) => because(input === null || input === undefined ? 'blank' : 'not_a_time')),
  v.check(
    (text) => Number.isSafeInteger(parseMicros(text)),
    ({ input }) => because(/T.* \d\d:?\d\d$/.test(input) ? 'blank_for_plus' : 'not_a_time'),
  ),
  v.metadata({ format: 'date-time' }),
  v.transform((text) => parseMicros(text) ?? 0),
);

/** @throws {ValidationError} naming every wrong field. */
export function checked<S extends v.GenericSchema>(
  schema: S,
  fields: Readonly<Record<string, unknown>>,
): v.InferOutput<S> {
  // Where a schema has no message of its own, such as for a missing key, the library's would be in the answer.
  const result = v.safeParse(schema, fields, { message: orBlank });
  if (result.success) return result.output;
  const problems = Object.entries<readonly string[] | undefined>(v.flatten(result.issues).nested ?? {});
  throw new ValidationError(
    Object.fromEntries(
      problems.map(([field, texts = []]) => [field, texts.map((text) => JSON.parse(text) as FieldProblem)]),
    ),
  );
}
