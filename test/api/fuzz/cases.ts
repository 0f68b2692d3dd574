/** Requests for the fuzz: valid, nearly valid and absurd ones, over every endpoint. */
import { fc } from '../../support/fast-check.ts';

export interface Case {
  readonly method: string;
  /** With placeholders `{own}`, `{foreign}` for ids, filled in when it is sent. */
  readonly path: string;
  /** The caller, or the whole `Authorization` header. */
  readonly caller: 'admin' | 'member' | 'free' | { readonly header: string | null };
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** How the body's characters become bytes: in Latin-1, those above ASCII are no UTF-8. */
  readonly encoding: 'utf8' | 'latin1';
  readonly chunked: boolean;
}

const mostly = <T>(usual: fc.Arbitrary<T>, weight: number, odd: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight, arbitrary: usual }, { weight: 1, arbitrary: odd });

const oneOf = (characters: string): fc.Arbitrary<string> => fc.constantFrom(...Array.from(characters));

/** Any Unicode text; often text that breaks parsers. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 120 }),
  fc.constantFrom(
    '',
    ' ',
    '\0',
    '\u200e',
    '\ud800',
    '../..',
    "'; drop table directories; --",
    '%00',
    '${x}',
    '__proto__',
  ),
  fc.nat(3000).map((length) => 'x'.repeat(length)),
);
const number = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.constantFrom(0, -0, 1, 10, 1000, 1001, 36_500, 36_501, 2 ** 53, 2 ** 63, -1, 1.5, 1e308),
);
const value: fc.Arbitrary<unknown> = fc.oneof(
  text,
  number,
  fc.boolean(),
  fc.constant(null),
  fc.jsonValue({ maxDepth: 3 }),
);
const field = (valid: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => mostly(valid, 3, value);

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBVKzDVIYXBwHsB0JKO4yRKVJxSGHCTpdRIxGoKK7U8v';
const fields = fc.record(
  {
    name: field(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 })),
    description: field(text),
    external_id: field(fc.constantFrom('a', 'order 42', 'é')),
    metadata: field(
      fc.oneof(
        { weight: 4, arbitrary: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 5 }) },
        { weight: 1, arbitrary: fc.integer({ min: 16_300, max: 16_500 }).map((size) => ({ a: 'x'.repeat(size) })) },
      ),
    ),
    max_connections: field(fc.integer({ min: 1, max: 1000 })),
    retention_days: field(fc.nat(36_500)),
    webhook_url: field(
      fc.oneof(fc.webUrl(), fc.constantFrom('http://[::1]:0/', 'https://a:b@c/', 'ftp://x', 'https://')),
    ),
    auth_mode: field(fc.constantFrom('password', 'public_key', 'both', 'none')),
    public_key: field(
      fc.oneof(
        fc.constant(KEY),
        fc.nat(KEY.length - 1).map((at) => `${KEY.slice(0, at)}A${KEY.slice(at + 1)}`),
        fc.base64String().map((blob) => `ssh-rsa ${blob}`),
        fc.constantFrom(`command="x" ${KEY}`, `${KEY}\n${KEY}`, 'ssh-dss AAAA', '-----BEGIN PUBLIC KEY-----'),
      ),
    ),
    id: value,
    __proto__: value,
  },
  { requiredKeys: [] },
);
/** Auth fields change the kind of a PATCH, so they are often left out. */
const basics = fields.map((all) =>
  Object.fromEntries(Object.entries(all).filter(([name]) => name !== 'auth_mode' && name !== 'public_key')),
);
/** All valid except for one value, at one of its limits or just beyond. */
const edge = fc.constantFrom<Record<string, unknown>>(
  ...[0, 1, 1000, 1001, 1.5, 2 ** 53].map((max_connections) => ({ max_connections })),
  ...[-1, 0, 36_500, 36_501].map((retention_days) => ({ retention_days })),
  ...[16_376, 16_377].map((size) => ({ metadata: { a: 'x'.repeat(size) } })),
  ...[100, 101].map((length) => ({ name: '\u{1f4e6}'.repeat(length) })),
  ...[255, 256].map((length) => ({ external_id: 'x'.repeat(length) })),
  ...[2000, 2001].map((length) => ({ description: 'x'.repeat(length) })),
  ...[2048, 2049].map((length) => ({ webhook_url: `https://x/${'x'.repeat(length - 10)}` })),
  ...['a\0', '\ud800'].flatMap((name) => [{ name }, { external_id: name }]),
);
/** Up to 64 KiB of brackets, most of them closed, so that they are parsed and then written. */
const deep = fc
  .record({
    depth: fc.oneof(fc.integer({ min: 900, max: 3000 }), fc.nat(32_000)),
    brackets: fc.constantFrom(['[', ']'] as const, ['{"a":', '}'] as const),
    field: fc.constantFrom('metadata', 'name', 'public_key', 'nothing'),
    isClosed: mostly(fc.constant(true), 4, fc.constant(false)),
  })
  .map(({ depth, brackets: [open, close], field: wrong, isClosed }) => {
    const levels = Math.min(depth, Math.floor(65_400 / (open.length + close.length)));
    const nested = `${open.repeat(levels)}0${isClosed ? close.repeat(levels) : ''}`;
    return `{"directory":{"name":"a","${wrong}":{"b":${nested}}${isClosed ? '}}' : ''}`;
  });
const spoilt = fc
  .record({ fields, at: fc.nat(400), put: fc.string({ unit: 'binary', maxLength: 3 }) })
  .map(({ fields: given, at, put }) => {
    const json = JSON.stringify({ directory: given });
    const spot = at % json.length;
    return json.slice(0, spot) + put + json.slice(spot + 1);
  });
const body = fc.oneof(
  { weight: 5, arbitrary: basics.map((directory) => JSON.stringify({ directory })) },
  { weight: 4, arbitrary: fields.map((directory) => JSON.stringify({ directory })) },
  { weight: 2, arbitrary: edge.map((one) => JSON.stringify({ directory: { name: 'a', ...one } })) },
  { weight: 2, arbitrary: value.map((directory) => JSON.stringify({ directory }) ?? '') },
  { weight: 2, arbitrary: fc.json() },
  { weight: 2, arbitrary: spoilt },
  { weight: 1, arbitrary: text },
  { weight: 1, arbitrary: deep },
  {
    weight: 1,
    arbitrary: fc.constantFrom(66_000, 64_000).map((size) => `{"directory":{"name":"${'x'.repeat(size)}"}}`),
  },
);

const escaped = text.map((raw) => encodeURIComponent(raw.toWellFormed()).slice(0, 6000));
/** What a request line may hold without being refused by the parser. */
const targetText = fc.oneof(
  escaped,
  fc.string({ unit: oneOf('%2fF0aA/.;:@&=+$,!~*\'()[]{}|^`"<>\\?'), maxLength: 40 }),
);
const id = fc.oneof(
  { weight: 6, arbitrary: fc.constant('{own}') },
  { weight: 1, arbitrary: fc.constant('{foreign}') },
  { weight: 1, arbitrary: fc.uuid() },
  { weight: 2, arbitrary: targetText },
);
/** Endpoints. The more an endpoint does, the more often it is chosen. */
const endpoint = fc.oneof(
  { weight: 4, arbitrary: fc.constant(['POST', '/api/v1/directories'] as const) },
  { weight: 2, arbitrary: fc.constant(['GET', '/api/v1/directories'] as const) },
  { weight: 6, arbitrary: id.map((one) => ['PATCH', `/api/v1/directories/${one}`] as const) },
  { weight: 2, arbitrary: id.map((one) => ['GET', `/api/v1/directories/${one}`] as const) },
  { weight: 1, arbitrary: id.map((one) => ['DELETE', `/api/v1/directories/${one}`] as const) },
  { weight: 1, arbitrary: id.map((one) => ['GET', `/api/v1/directories/${one}/uploads`] as const) },
  { weight: 1, arbitrary: id.map((one) => ['DELETE', `/api/v1/directories/${one}/public_key`] as const) },
  { weight: 1, arbitrary: fc.constant(['GET', '/healthz'] as const) },
  { weight: 1, arbitrary: targetText.map((rest) => ['GET', `/${rest}`] as const) },
);
const parameter = fc.oneof(
  fc.oneof(fc.integer(), fc.nat(1001), targetText).map((limit) => `limit=${limit}`),
  fc.oneof(id, targetText).map((after) => `after=${after}`),
  fc.oneof(fc.constant('a'), targetText).map((external) => `external_id=${external}`),
  targetText,
);
const query = mostly(
  fc.constant(''),
  1,
  fc.array(parameter, { maxLength: 4 }).map((parts) => `?${parts.join('&')}`),
);

/** Visible ASCII, and the characters above it that HTTP/1.1 still allows. */
const headerText = fc.string({ unit: oneOf(' !"#%,;:=?@[]{}~/azAZ09\t\u0080\u00ff'), maxLength: 80 });
const contentType = mostly(
  fc.constant('application/json'),
  8,
  fc.oneof(fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'application/json;', ''), headerText),
);
const headers = fc.record(
  {
    'content-type': contentType,
    'content-encoding': mostly(fc.constant('identity'), 1, headerText),
    accept: headerText,
    'x-forwarded-for': headerText,
    'x-forwarded-proto': headerText,
    'x-request-id': headerText,
    'if-none-match': headerText,
    range: fc.constant('bytes=0-1'),
    cookie: mostly(
      headerText,
      12,
      fc.constantFrom(12_000, 17_000).map((length) => 'x'.repeat(length)),
    ),
    expect: fc.constant('100-continue'),
  },
  { requiredKeys: ['content-type'] },
);

const caller: fc.Arbitrary<Case['caller']> = fc.oneof(
  { weight: 12, arbitrary: fc.constant('admin' as const) },
  { weight: 3, arbitrary: fc.constant('member' as const) },
  { weight: 1, arbitrary: fc.constant('free' as const) },
  {
    weight: 1,
    arbitrary: fc.record({ header: fc.oneof(fc.constantFrom(null, 'Bearer', 'Bearer x'), headerText) }),
  },
);

const anyMethod = fc.constantFrom(
  'GET',
  'POST',
  'PATCH',
  'DELETE',
  'HEAD',
  'PUT',
  'OPTIONS',
  'TRACE',
  'PURGE',
  'SEARCH',
);

export const cases: fc.Arbitrary<Case> = fc
  .record({
    endpoint,
    otherMethod: mostly(fc.constant(undefined), 12, anyMethod),
    query,
    caller,
    headers,
    body: fc.option(body, { nil: undefined, freq: 6 }),
    encoding: mostly(fc.constant('utf8' as const), 8, fc.constant('latin1' as const)),
    chunked: fc.boolean(),
  })
  .map(({ endpoint: [method, path], otherMethod, query: rest, ...other }) => ({
    ...other,
    // Requests that Node's parser rejects get an answer with a body, whatever the method. Node's client treats that as an error.
    method: otherMethod === 'HEAD' && (other.headers.cookie ?? '').length > 16_000 ? 'GET' : (otherMethod ?? method),
    path: (path + rest).slice(0, 12_000),
  }));
