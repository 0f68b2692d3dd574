/**
 * GET /api/v1/openapi.json: what it has to say about every route. Each API test checks that the answers agree with it.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as v from 'valibot';
import { schemaSet } from '../../src/interfaces/http/openapi/json-schema.ts';
import { hosted } from '../support/hosted.ts';
import { contentOf, document, problems, routes } from '../support/openapi.ts';
import { scratch } from '../support/scratch.ts';
import { ENDPOINTS } from './endpoints.ts';

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
const pointer = (...keys: string[]): string =>
  encodeURI(keys.map((key) => key.replaceAll('~', '~0').replaceAll('/', '~1')).join('/'));

test('it is served without a key, as one document with an ETag', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const answer = await api.send('GET', '/openapi.json', { authorization: null });
  assert.equal(answer.status, 200);
  const { info, servers, ...served } = answer.json as { info: { title: string }; servers: unknown };
  const { info: _, servers: __, ...made } = document as unknown as { info: unknown; servers: unknown };
  assert.equal(info.title, 'berth');
  const description = 'The berth that serves this document';
  assert.deepEqual(servers, [{ url: `https://127.0.0.1:${api.port}`, description }], 'absolute, as its reader asked');
  assert.deepEqual(served, JSON.parse(JSON.stringify(made)));
  const headers = { 'if-none-match': String(answer.headers.etag) };
  const again = await api.send('GET', '/openapi.json', { authorization: null, headers });
  assert.deepEqual([again.status, again.text], [304, '']);
});

test('every route is in it, each operation id once, with an answer and a summary', () => {
  assert.equal(operations.length, routes.length);
  const ids = operations.map(({ operation }) => operation.operationId);
  assert.deepEqual(
    ids.filter((id, at) => ids.indexOf(id) !== at),
    [],
  );
  for (const { method, path, operation } of routes) {
    const written = document.paths[path.replaceAll(/:(\w+)(\{[^}]*\})?/g, '{$1}').replace(/\*$/, '{path}')];
    const found = written?.[method.toLowerCase()];
    assert.equal(found?.operationId, operation.id, `${method} ${path}`);
    assert.ok(found.responses[operation.answer.status], operation.id);
    for (const status of operation.refusals) assert.ok(found.responses[status], `${operation.id} ${status}`);
    if (path.includes('/:')) assert.ok(found.responses[404], `${operation.id}: what its path names may not exist`);
  }
});

test('it says which endpoints need the admin role', () => {
  const said = routes
    .filter(({ operation }) => operation.role === 'admin')
    .map(({ method, path }) => `${method} ${path}`);
  const admins = Object.keys(ENDPOINTS).filter((name) => ENDPOINTS[name]?.role === 'admin');
  assert.deepEqual(said.toSorted(), admins.toSorted());
});

test('every JSON body has a schema that is not empty, and a real example that fits', () => {
  for (const { path, method, operation } of operations) {
    const bodies = [
      { at: ['requestBody'], content: operation.requestBody?.content ?? {} },
      ...Object.entries(operation.responses).map(([status, response]) => ({
        at: ['responses', status],
        content: response.$ref === undefined ? contentOf(response) : {},
      })),
    ];
    for (const { at, content } of bodies) {
      const media = content['application/json'];
      if (!media) continue;
      const where = `${operation.operationId} ${at.join(' ')}`;
      assert.deepEqual(emptyPlaces(media.schema), [], where);
      assert.ok(media.example !== undefined, `${where}: no example`);
      const schema = pointer('paths', path, method, ...at, 'content', 'application/json', 'schema');
      assert.deepEqual(problems(schema, media.example), [], where);
    }
  }
});

/** The places where a schema accepts anything, or an undescribed object. */
function emptyPlaces(schema: Schema | undefined, at = ''): string[] {
  const { $ref, type, properties, items, anyOf, oneOf, additionalProperties, ...rest } = schema ?? {};
  if ($ref !== undefined) return emptyPlaces(document.components.schemas[$ref.split('/').at(-1) ?? ''], at);
  const choices = [...(anyOf ?? []), ...(oneOf ?? [])];
  if (choices.length > 0) return choices.flatMap((choice) => emptyPlaces(choice, at));
  if (items) return emptyPlaces(items, `${at}/-`);
  if (properties && Object.keys(properties).length > 0) {
    return Object.entries(properties).flatMap(([name, part]) => emptyPlaces(part, `${at}/${name}`));
  }
  const isFree = type === 'object' && additionalProperties === undefined;
  return isFree || (type === undefined && !('enum' in rest || 'const' in rest)) ? [`${at} is empty`] : [];
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string | string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: unknown;
}

test('the refusals and the webhook have examples that fit', () => {
  for (const [name, response] of Object.entries(document.components.responses)) {
    const media = contentOf({ $ref: `#/components/responses/${name}` })['application/json'];
    assert.ok(media?.examples, JSON.stringify(response));
    const schema = pointer('components', 'responses', name, 'content', 'application/json', 'schema');
    for (const { value } of Object.values(media.examples)) assert.deepEqual(problems(schema, value), [], name);
  }
  for (const [name, { post }] of Object.entries(document.components.pathItems)) {
    const media = post.requestBody?.content['application/json'];
    const body = ['post', 'requestBody', 'content', 'application/json', 'schema'];
    assert.deepEqual(problems(pointer('components', 'pathItems', name, ...body), media?.example), []);
  }
});

test('the webhook is there by reference: openapi-generator puts its class in the place of that of the operations', () => {
  const { webhooks, components } = document;
  assert.deepEqual(Object.keys(webhooks), Object.keys(components.pathItems));
  for (const [name, item] of Object.entries(webhooks))
    assert.deepEqual(item, { $ref: `#/components/pathItems/${name}` });
});

test('request schemas have the limits that the rules have', () => {
  const { CreateDirectory, BasicFields, AuthFields } = document.components.schemas as Record<
    string,
    { properties: object }
  >;
  assert.partialDeepStrictEqual(CreateDirectory, {
    required: ['name'],
    properties: {
      name: {
        type: 'string',
        maxLength: 100,
        pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
        allOf: [{ pattern: '\\S' }],
      },
      description: { type: ['string', 'null'], maxLength: 2000 },
      external_id: { maxLength: 255 },
      metadata: { type: ['object', 'null'] },
      max_connections: { type: 'integer', minimum: 1, maximum: 1000, default: 10 },
      retention_days: { type: 'integer', minimum: 0, maximum: 36_500, default: 0 },
    },
  });
  assert.partialDeepStrictEqual(BasicFields?.properties, {
    webhook_url: { type: ['string', 'null'], maxLength: 2048 },
  });
  assert.partialDeepStrictEqual(AuthFields?.properties, { auth_mode: { enum: ['password', 'public_key', 'both'] } });
  const update = pointer(
    'paths',
    '/api/v1/directories/{id}',
    'patch',
    'requestBody',
    'content',
    'application/json',
    'schema',
  );
  const fits = (directory: object): boolean => problems(update, { directory }).length === 0;
  assert.deepEqual(
    [{ max_connections: 0 }, { name: ' ' }, { auth_mode: 'x' }, { public_key: '' }, { webhook_url: 'ftp://x' }].filter(
      fits,
    ),
    [],
  );
  assert.ok([{}, { name: '😀'.repeat(100) }, { auth_mode: 'both', max_connections: 0 }].every(fits));
  assert.ok(!fits({ name: '😀'.repeat(101) }));
});

test('an empty schema is found wherever it is', () => {
  const inside = (schema: object) =>
    emptyPlaces({ type: 'object', properties: { a: { type: 'array', items: schema } } });
  assert.deepEqual(inside({}), ['/a/- is empty']);
  assert.deepEqual(inside({ type: 'object', properties: {} }), ['/a/- is empty']);
  assert.deepEqual(inside({ type: 'string' }), []);
});

test('no constraint is dropped in silence', () => {
  const convert = (schema: v.GenericSchema) => () => schemaSet().add(schema);
  const even = v.check<number, string>((value) => value % 2 === 0, 'is odd');
  assert.throws(convert(v.pipe(v.number(), even)), /metadata has to say/);
  assert.throws(convert(v.object({ a: v.pipe(v.number(), even), b: v.string() })), /metadata has to say/);
  assert.throws(convert(v.pipe(v.number(), even, v.minValue(1), v.metadata({ multipleOf: 2 }))), /metadata has to say/);
  assert.throws(convert(v.custom<string>(() => true)), /metadata has to say/);
  assert.throws(convert(v.pipe(v.string(), v.regex(/a/i))), /no flags/);
  assert.throws(convert(v.date()), /cannot be converted/);
  assert.throws(convert(v.tuple([v.pipe(v.string(), v.title('A')), v.pipe(v.number(), v.title('A'))])), /title A/);
  const { named, add } = schemaSet();
  assert.deepEqual(add(v.pipe(v.number(), even, v.metadata({ multipleOf: 2 }))), { type: 'number', multipleOf: 2 });
  assert.deepEqual(add(v.array(v.pipe(v.string(), v.title('A')))), {
    type: 'array',
    items: { $ref: '#/components/schemas/A' },
  });
  assert.deepEqual(named, { A: { type: 'string' } });
});

test('redocly finds nothing to complain of', async () => {
  using place = scratch();
  const file = join(place.dir, 'openapi.json');
  await writeFile(file, JSON.stringify(document));
  const redocly = fileURLToPath(import.meta.resolve('@redocly/cli/bin/cli.js'));
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const lint = spawnSync(process.execPath, [redocly, 'lint', '--format=json', file], {
    cwd: place.dir,
    env,
    encoding: 'utf8',
  });
  const { problems: found, totals } = JSON.parse(lint.stdout) as { problems: unknown[]; totals: object };
  assert.deepEqual(found, []);
  assert.deepEqual(totals, { errors: 0, warnings: 0, ignored: 0 });
});
