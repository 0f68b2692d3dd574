/** openapi.json as the source makes it, and whether it describes an answer. */
import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { described, routesOf } from '../../src/interfaces/http/app.ts';
import type { AppContext } from '../../src/interfaces/web/context.ts';
import { openapi } from '../../src/interfaces/http/openapi/document.ts';

/** Routes use what they are made with only when they are asked. */
const unused: unknown = new Proxy(() => undefined, { get: () => unused, apply: () => unused });

export const routes = described(routesOf(unused as AppContext));

export interface Media {
  readonly schema?: object;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

export interface DescribedOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly { readonly $ref?: string; readonly name?: string; readonly example?: unknown }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content?: Record<string, Media> }>>;
}

export interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>;
  readonly webhooks: Readonly<Record<string, object>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly responses: DescribedOperation['responses'];
    readonly pathItems: Readonly<Record<string, { readonly post: DescribedOperation }>>;
  };
}

/** Where the document says that it is served. */
export const ORIGIN = 'https://sftp.berth.test';

export const document = openapi(routes, '0.0.0', ORIGIN) as Document;

/** The same with no further fields anywhere: clients take more than is there today, and we answer with nothing else. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const parts = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, closed(part)]));
  // Below `not` it would mean the opposite.
  const isAnswer = parts['type'] === 'object' && 'properties' in parts && !('not' in parts);
  const isOpen = isAnswer && !('additionalProperties' in parts);
  return isOpen ? { ...parts, additionalProperties: false } : parts;
}

const ajv = new Ajv2020({ strict: false, validateSchema: false, code: { optimize: false } });
formats.default(ajv);
ajv.addSchema(closed(document) as object, 'openapi');
const compiled = new Map<string, ValidateFunction>();

/** What does not fit the schema at that place of the document (`paths/~1healthz/get/…`); empty when everything does. */
export function problems(pointer: string, value: unknown): string[] {
  const validate = compiled.get(pointer) ?? ajv.compile({ $ref: `openapi#/${pointer}` });
  compiled.set(pointer, validate);
  validate(value);
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** Those with fewer parameters first, as OpenAPI matches them: `deliveries/replay` before `deliveries/{delivery_id}`. */
const templates = Object.keys(document.paths)
  .toSorted((a, b) => a.split('{').length - b.split('{').length)
  .map((path) => ({
    path,
    pattern: new RegExp(
      `^${path
        .replaceAll('.', '\\.')
        .replaceAll(/\{(?:path|fingerprint)\}/g, '.+')
        .replaceAll(/\{\w+\}/g, '[^/]+')}$`,
    ),
  }));

/** Refusals of the HTTP server itself, of unknown paths, and of methods that a path does not have. */
const NO_OPERATION = new Set([400, 401, 404, 405, 408, 417, 429, 431, 500, 505]);

export interface Answer {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
}

/** @throws {AssertionError} unless openapi.json describes such an answer to a request for that path. */
export function assertDescribed(method: string, target: string, { status, type, text }: Answer): void {
  const pathname = URL.parse(`https://localhost${target}`)?.pathname ?? target;
  // A page for browsers, which docs.test.ts looks at.
  if (/^\/docs(\/|$)/.test(pathname)) return;
  // For people, without a key.
  if (pathname.startsWith('/links/')) return;
  const path = templates.find(({ pattern }) => pattern.test(pathname))?.path ?? '';
  const operation = document.paths[path]?.[(method === 'HEAD' ? 'GET' : method).toLowerCase()];
  const response = operation?.responses[status];
  const where = `${method} ${pathname} ${status} ${text.slice(0, 200)}`;
  const isKnown = response !== undefined || NO_OPERATION.has(status) || method === 'OPTIONS';
  assert.ok(isKnown, `openapi.json does not describe ${where}`);
  if (text === '') return;
  const [content] = Object.entries(contentOf(response));
  const [expected, media] = response ? (content ?? []) : ['application/json', {}];
  assert.equal(type, expected, `openapi.json does not describe ${where}`);
  if (expected !== 'application/json') return;
  assert.ok(media);
  const pointer = response ? pointerTo(path, method, status, response.$ref) : 'components/schemas/Problem';
  assert.deepEqual(problems(pointer, JSON.parse(text)), [], where);
}

export function contentOf(response: DescribedOperation['responses'][string] | undefined): Record<string, Media> {
  if (response?.$ref === undefined) return response?.content ?? {};
  const shared = document.components.responses[response.$ref.split('/').at(-1) ?? ''];
  return shared?.content ?? {};
}

function pointerTo(path: string, method: string, status: number, ref: string | undefined): string {
  const verb = (method === 'HEAD' ? 'GET' : method).toLowerCase();
  const own = `paths/${path.replaceAll('~', '~0').replaceAll('/', '~1')}/${verb}/responses/${status}`;
  const response = ref === undefined ? own : ref.replace(/^#\//, '');
  return encodeURI(`${response}/content/application~1json/schema`);
}
