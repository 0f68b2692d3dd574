/**
 * The rules for a directory's fields, one place for their limits and words. The words are Ecto's (validate_required,
 * validate_length, validate_number, cast), since `can't be blank` of the specification is one of them.
 *
 * Text counts in code points and has to be storable anywhere: well-formed Unicode, no NUL. Fields that are not listed
 * for a request are ignored.
 */
import * as v from 'valibot';
import type { AuthMode } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';
import { isExactNumber } from './json-text.ts';
import { parsePublicKey, type PublicKey } from './public-key.ts';

const BLANK = "can't be blank";
const INVALID = 'is invalid';
const METADATA_BYTES = 16_384;

const atMost = (limit: number) =>
  v.check<string, string>((text) => Array.from(text).length <= limit, `should be at most ${limit} character(s)`);
const storable = v.check<string, string>((text) => text.isWellFormed() && !text.includes('\0'), INVALID);
const present = v.check<unknown, string>((value) => value !== null, BLANK);

const name = v.pipe(
  v.nullish(v.string(INVALID), ''),
  v.check((text) => text.trim() !== '', BLANK),
  storable,
  atMost(100),
);
const optionalText = (limit: number) => v.nullable(v.pipe(v.string(INVALID), storable, atMost(limit)));
const integer = (min: number, max: number) =>
  v.pipe(
    v.unknown(),
    present,
    v.custom<number>(Number.isSafeInteger, INVALID),
    v.minValue(min, `must be greater than or equal to ${min}`),
    v.maxValue(max, `must be less than or equal to ${max}`),
  );

/** Kept as JSON text. */
const metadata = v.pipe(
  v.unknown(),
  v.custom<object | null>(
    (value) => typeof value === 'object' && !Array.isArray(value) && !isExactNumber(value),
    INVALID,
  ),
  v.transform((value) => JSON.stringify(value ?? {})),
  v.check((text) => Buffer.byteLength(text) <= METADATA_BYTES, `should be at most ${METADATA_BYTES} byte(s)`),
);

const webhookUrl = v.nullable(
  v.pipe(
    v.string(INVALID),
    v.regex(/^https?:\/\//i, 'must start with https:// or http://'),
    v.check((text) => !/^https?:\/\//i.test(text) || isUrl(text), INVALID),
    atMost(2048),
  ),
);

const maxConnections = integer(1, 1000);

export const NewDirectory = v.object({
  name,
  description: v.optional(optionalText(2000), null),
  external_id: v.optional(optionalText(255), null),
  metadata: v.optional(metadata, {}),
  max_connections: v.optional(maxConnections, 10),
  retention_days: v.optional(integer(0, 36_500), 0),
});

export const BasicFields = v.object({
  name: v.optional(name),
  description: v.optional(optionalText(2000)),
  webhook_url: v.optional(webhookUrl),
  external_id: v.optional(optionalText(255)),
  metadata: v.optional(metadata),
  max_connections: v.optional(maxConnections),
});

export const AuthFields = v.object({
  auth_mode: v.optional(
    v.pipe(v.unknown(), present, v.picklist(['password', 'public_key', 'both'] satisfies AuthMode[], INVALID)),
  ),
  public_key: v.optional(
    v.pipe(
      v.unknown(),
      present,
      v.string(INVALID),
      v.check((text) => text.trim() !== '', BLANK),
      v.transform(parsePublicKey),
      v.custom<PublicKey>((key) => key !== undefined, 'is not a valid OpenSSH public key'),
      v.check(
        ({ weakness }) => weakness === undefined,
        ({ input }) => input.weakness ?? INVALID,
      ),
    ),
  ),
});

export type NewDirectory = v.InferOutput<typeof NewDirectory>;
export type BasicFields = v.InferOutput<typeof BasicFields>;
export type AuthFields = v.InferOutput<typeof AuthFields>;

/** The `directory` object of a request, as it was parsed. */
export type Fields = Readonly<Record<string, unknown>>;

/** @throws {ValidationError} naming every field that is wrong, as do the next two. */
export function newDirectory(fields: Fields): NewDirectory {
  return checked(NewDirectory, fields);
}

export function basicFields(fields: Fields): BasicFields {
  return checked(BasicFields, fields);
}

export function authFields(fields: Fields): AuthFields {
  return checked(AuthFields, fields);
}

/** Whether a change is one of the auth settings; then nothing else in it counts (specification, PATCH, 2). */
export function isAuthChange(fields: Fields): boolean {
  return Object.hasOwn(fields, 'auth_mode') || Object.hasOwn(fields, 'public_key');
}

/** The names of the fields that a request of each kind can set; others are ignored. */
export const SETTABLE = {
  create: Object.keys(NewDirectory.entries),
  basics: Object.keys(BasicFields.entries),
  auth: Object.keys(AuthFields.entries),
};

function checked<S extends v.GenericSchema>(schema: S, fields: Fields): v.InferOutput<S> {
  const result = v.safeParse(schema, fields);
  if (result.success) return result.output;
  const problems = Object.entries(v.flatten(result.issues).nested ?? {});
  throw new ValidationError(Object.fromEntries(problems.map(([field, messages]) => [field, messages ?? [INVALID]])));
}

/** A URL as it stands: the parser would drop blanks and control characters. */
function isUrl(text: string): boolean {
  return text.isWellFormed() && !/[\s\p{Cc}]/u.test(text) && URL.canParse(text);
}
