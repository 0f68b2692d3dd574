/**
 * Makes openapi.json (OpenAPI 3.1) from the routes. Parts that every endpoint has (refusals, path parameters, headers) are added
 * here, so that a route has only its own.
 */
import type { GenericSchema } from 'valibot';
import { type Operation, type Route, TAGS } from '../route.ts';
import { Problem, ValidationProblems } from '../schemas.ts';
import { type HeaderName, HEADERS, IDEMPOTENCY_KEY, PATH_PARAMETERS, REQUEST_HEADERS } from './headers.ts';
import { type SchemaSet, schemaSet } from './json-schema.ts';
import { type Refusal, REFUSALS, sharedRefusals } from './refusals.ts';
import { webhookPathItems, WEBHOOKS } from './webhooks.ts';

/** A route without its endpoint. */
export type Described = Omit<Route, 'endpoint'>;

const ABOUT = `Creates SFTP directories, and sends a webhook when a file has arrived.

Errors have two shapes: \`{"error": "…"}\` and, for invalid fields, \`{"errors": {"name": ["can't be blank"]}}\`. A request that reaches no endpoint gets the first shape: 400, 408, 417, 431 or 505 if it is not a valid HTTP request, 404 for an unknown path, 405 for a method that the path does not support.

Timestamps are in UTC with microseconds. The length of text is counted in Unicode code points. Whole numbers are written without a decimal point. Each account may make 120 requests a minute; further requests get 429. An unknown field or query parameter gets 422 or, in the operations of the first version, a \`Warning\` header. Later versions may add operations and fields, and remove none.`;

/** @param origin where the document is served. Generated clients send requests there by default. */
export function openapi(routes: readonly Described[], version: string, origin: string): object {
  const schemas = schemaSet();
  const paths: Record<string, Record<string, object>> = {};
  for (const described of routes) {
    const path = described.path.replaceAll(/:(\w+)(\{[^}]*\})?/g, '{$1}').replace(/\*$/, '{path}');
    (paths[path] ??= {})[described.method.toLowerCase()] = operationOf(described, path, schemas);
  }
  const responses = Object.values(REFUSALS).map((refusal) => [refusal.name, refusalResponse(refusal, schemas)]);
  return {
    openapi: '3.1.1',
    info: {
      title: 'berth',
      version,
      summary: 'SFTP directories by API',
      description: ABOUT,
      license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    },
    servers: [{ url: origin, description: 'The berth that serves this document' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    security: [{ apiKey: [] }],
    paths,
    webhooks: WEBHOOKS,
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key: `svc_live_…`, or `svc_test_…` on a test berth.',
        },
      },
      parameters: { IdempotencyKey: IDEMPOTENCY_KEY },
      headers: HEADERS,
      responses: Object.fromEntries(responses) as object,
      pathItems: webhookPathItems(schemas),
      schemas: Object.fromEntries(Object.entries(schemas.named).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

function operationOf(described: Described, path: string, schemas: SchemaSet): object {
  const { method, operation } = described;
  const { id, tag, summary, description, role, open, query, accepts = [], body, refusals, isSpecified } = operation;
  const shared = sharedRefusals({ method, isOpen: open === true, hasBody: isJson(body) });
  // 422 for unknown names (route.ts).
  const statuses = [...shared, ...(isSpecified || open ? [] : [422]), ...refusals];
  const parameters = [
    ...pathParameters(path),
    ...queryParameters(query, schemas),
    ...accepts.map((name) => ({ name, ...REQUEST_HEADERS[name] })),
    ...(method === 'POST' ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  const words = [description, role && `Needs a key with the ${role} role.`].filter((text) => text !== undefined);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(words.length > 0 && { description: words.join('\n\n') }),
    ...(open && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: { required: isJson(body) && body.isOptional !== true, content: requestContent(body, schemas) },
    }),
    responses: {
      ...answers(described, schemas),
      ...Object.fromEntries(
        statuses.map((status) => [status, { $ref: `#/components/responses/${refusalOf(status).name}` }]),
      ),
    },
  };
}

function refusalOf(status: number): Refusal {
  const refusal = REFUSALS[status];
  if (!refusal) throw new Error(`openapi/refusals.ts has no ${status}`);
  return refusal;
}

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const known = PATH_PARAMETERS[name];
    if (!known) throw new Error(`openapi/headers.ts has no path parameter ${name}`);
    return { name, in: 'path', required: true, ...known };
  });
}

function queryParameters(query: GenericSchema | undefined, schemas: SchemaSet): object[] {
  if (!query) return [];
  const { properties, required = [] } = schemas.add(query) as {
    properties: Record<string, { description?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema,
  }));
}

/** Generators turn this into a file or a stream. */
const BYTES = { type: 'string', format: 'binary' };

type Body = NonNullable<Operation['body']>;

function isJson(body: Operation['body']): body is Exclude<Body, 'bytes'> {
  return body !== undefined && body !== 'bytes';
}

function requestContent(body: Body, schemas: SchemaSet): object {
  if (!isJson(body)) return { 'application/octet-stream': { schema: BYTES } };
  return { 'application/json': { schema: schemas.add(body.schema), example: body.example } };
}

function answers({ method, operation: { query, isSpecified, answer } }: Described, schemas: SchemaSet): object {
  const { status, description, schema, example, content, headers = [], others = {} } = answer;
  const isPaged = query !== undefined && 'entries' in query && Object.hasOwn(query.entries as object, 'after');
  const main = {
    description,
    headers: headersOf(
      ...headers,
      ...(isSpecified ? (['Warning'] as const) : []),
      ...(isPaged ? (['Link'] as const) : []),
      ...(method === 'POST' ? (['Idempotency-Replayed'] as const) : []),
    ),
    ...(schema && { content: { 'application/json': { schema: schemas.add(schema), example } } }),
    ...(content && { content: { [content]: { schema: BYTES } } }),
  };
  const more = Object.entries(others).map(([other, words]) => [
    other,
    { ...main, description: words, ...(other === '304' && { content: undefined }) },
  ]);
  return { [status]: main, ...(Object.fromEntries(more) as object) };
}

function refusalResponse({ description, examples, headers = [] }: Refusal, schemas: SchemaSet): object {
  const shapes = [
    ...(Object.values(examples).some((body) => 'error' in body) ? [Problem] : []),
    ...(Object.values(examples).some((body) => 'errors' in body) ? [ValidationProblems] : []),
  ].map(schemas.add);
  return {
    description,
    headers: headersOf(...headers),
    content: {
      'application/json': {
        schema: shapes.length === 1 ? shapes[0] : { oneOf: shapes },
        examples: Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }])),
      },
    },
  };
}

function headersOf(...names: readonly HeaderName[]): object {
  const all = ['x-request-id', ...names];
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
