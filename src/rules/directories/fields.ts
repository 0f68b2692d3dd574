/** The fields of a directory and their limits. Fields that are not listed for a request are ignored. */
import type { AuthMode, DirectoryRow } from '../../foundation/db/schema.ts';
import {
  atMost,
  because,
  checked,
  filled,
  INVALID,
  line,
  nameLine,
  optionalText,
  orBlank,
  paragraphs,
  wholeNumber,
} from '../../foundation/base/validation.ts';
import { isExactNumber } from './json-text.ts';
import { parsePublicKey, type PublicKey, whyNoPublicKey } from './public-key.ts';
import * as v from 'valibot';

/** The values of a new directory's columns that neither the request nor berth sets. */
export const DEFAULTS = {
  description: null,
  external_id: null,
  metadata: '{}',
  webhook_url: null,
  uses_account_webhook: 1,
  next_webhook_secret: null,
  max_connections: 10,
  storage_bytes: 0,
  retention_days: 0,
  auth_mode: 'password',
  public_key: null,
  public_key_fingerprint: null,
  suspended: 0,
  expires_at: null,
  allowed_networks: '[]',
  events: null,
  quota_bytes: null,
  deleted_at: null,
} as const satisfies Partial<DirectoryRow>;

const METADATA_BYTES = 16_384;

const name = v.config(
  v.pipe(
    v.string(orBlank),
    ...nameLine,
    ...atMost(100),
    v.description('The name. Slug and username are derived from it when the directory is created.'),
  ),
  { abortPipeEarly: true },
);

const notes = v.pipe(optionalText(2000, paragraphs), v.description('Notes.'));

const externalId = v.pipe(
  optionalText(255, line),
  v.description(
    'Your own reference, such as a customer or an order number. Webhooks contain it, and you can filter the list by it.',
  ),
);

/** Stored as JSON text. */
const metadata = v.pipe(
  v.custom<object | null>(
    (value) => typeof value === 'object' && !Array.isArray(value) && !isExactNumber(value),
    INVALID,
  ),
  v.metadata({
    type: ['object', 'null'],
    description: `Any JSON, stored as sent: at most ${METADATA_BYTES} bytes. \`null\` means \`{}\`.`,
  }),
  v.transform((value) => JSON.stringify(value ?? {})),
  v.check((text) => Buffer.byteLength(text) <= METADATA_BYTES, because('too_long', METADATA_BYTES, 'byte')),
);

/** Spelled out for upper and lower case, since JSON Schema's patterns have no flags. */
const HTTP = /^[Hh][Tt][Tt][Pp][Ss]?:\/\//;

export const webhookUrl = v.pipe(
  v.nullable(
    v.pipe(
      v.string(INVALID),
      v.regex(HTTP, because('no_scheme')),
      v.check((text) => !HTTP.test(text) || isUrl(text), INVALID),
      v.metadata({ allOf: [{ pattern: '^[^\\s\\u0000-\\u001f\\u007f-\\u009f]*$' }] }),
      ...atMost(2048),
    ),
  ),
  v.description(
    "Where webhooks are sent. With `null`, they are sent to the account's URL, if there is one and the directory uses it.",
  ),
);

const maxConnections = v.pipe(
  wholeNumber(1, 1000),
  v.description('How many SFTP connections are allowed at the same time.'),
);

const retentionDays = v.pipe(
  wholeNumber(0, 36_500),
  v.description('Files are deleted after this many days. 0 keeps them.'),
);

export const publicKey = (description: string) =>
  v.pipe(
    v.string(orBlank),
    filled,
    v.description(description),
    v.transform((text) => parsePublicKey(text) ?? text),
    v.custom<PublicKey>(
      (key) => typeof key !== 'string',
      ({ input }) => because('not_a_public_key', whyNoPublicKey(String(input))),
    ),
    v.check(
      ({ weakness }) => weakness === undefined,
      ({ input }) => because(...(input.weakness ?? ['invalid'])),
    ),
  );

export const NewDirectory = v.pipe(
  v.object(
    {
      name,
      description: v.optional(notes, DEFAULTS.description),
      external_id: v.optional(externalId, DEFAULTS.external_id),
      metadata: v.optional(metadata, {}),
      max_connections: v.optional(maxConnections, DEFAULTS.max_connections),
      retention_days: v.optional(retentionDays, DEFAULTS.retention_days),
    },
    orBlank,
  ),
  v.title('CreateDirectory'),
);

/** `isAuthChange` in JSON Schema: the two kinds of change exclude each other. Client generators skip `not`. */
const IS_AUTH = {
  anyOf: ['auth_mode', 'public_key'].map((field) => ({ properties: { [field]: {} }, required: [field] })),
};

export const BasicFields = v.pipe(
  v.object({
    name: v.optional(name),
    description: v.optional(notes),
    webhook_url: v.optional(webhookUrl),
    external_id: v.optional(externalId),
    metadata: v.optional(metadata),
    max_connections: v.optional(maxConnections),
  }),
  v.title('BasicFields'),
  v.metadata({ not: IS_AUTH }),
);

export const AuthFields = v.pipe(
  v.object({
    auth_mode: v.optional(v.picklist(['password', 'public_key', 'both'] satisfies AuthMode[], orBlank)),
    public_key: v.optional(
      publicKey("The line of a `.pub` file with a strong OpenSSH key. It replaces all of the directory's keys."),
    ),
  }),
  v.title('AuthFields'),
  v.metadata({ not: { not: IS_AUTH } }),
);

export type NewDirectory = v.InferOutput<typeof NewDirectory>;
export type BasicFields = v.InferOutput<typeof BasicFields>;
export type AuthFields = v.InferOutput<typeof AuthFields>;

/** The parsed `directory` object of a request, not validated yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** @throws {ValidationError} naming every field that is wrong. */
export function newDirectory(fields: Fields): NewDirectory {
  return checked(NewDirectory, fields);
}

/** @throws {ValidationError} naming every field that is wrong. */
export function basicFields(fields: Fields): BasicFields {
  return checked(BasicFields, fields);
}

/** @throws {ValidationError} naming every field that is wrong. */
export function authFields(fields: Fields): AuthFields {
  return checked(AuthFields, fields);
}

/** Whether a request changes the auth settings. Its other fields are then ignored (specification, PATCH, 2). */
export function isAuthChange(fields: Fields): boolean {
  return Object.hasOwn(fields, 'auth_mode') || Object.hasOwn(fields, 'public_key');
}

/** The names of the fields that a request of each kind can set; others are ignored. */
export const SETTABLE = {
  create: Object.keys(NewDirectory.entries),
  basics: Object.keys(BasicFields.entries),
  auth: Object.keys(AuthFields.entries),
};

/** Whether the text is a URL as it stands: the parser would drop blanks and control characters. */
function isUrl(text: string): boolean {
  return text.isWellFormed() && !/[\s\p{Cc}]/u.test(text) && hasReadableCredentials(URL.parse(text));
}

/** A URL with credentials such as `%zz`, which cannot be decoded, could never be requested. */
function hasReadableCredentials(url: URL | null): boolean {
  try {
    return url !== null && typeof decodeURIComponent(url.username + url.password) === 'string';
  } catch {
    return false;
  }
}
