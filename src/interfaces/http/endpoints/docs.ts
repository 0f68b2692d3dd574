/**
 * GET /docs: the reference, shown by Swagger UI from its npm package. Nothing is loaded from elsewhere and nothing is inline, so
 * the content security policy is strict. All URLs are relative, so that it works behind a proxy that adds a prefix to the path.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Context } from 'hono';
import type { ApiEnv } from '../../web/observe.ts';
import { hash } from 'node:crypto';
import { type Described, openapi } from '../openapi/document.ts';
import { json } from '../../web/responses.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Swagger UI's icons.
  "img-src 'self' data:",
  // For openapi.json, and for requests that users try out.
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>berth: the API</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="docs/swagger-ui.css">
  </head>
  <body>
    <div id="reference"></div>
    <script src="docs/swagger-ui-bundle.js"></script>
    <script src="docs/start.js"></script>
  </body>
</html>
`;

/** Inserts the webhooks, since Swagger UI does not follow the references to them (`openapi/webhooks.ts`). */
const START = `const OPENAPI = 'api/v1/openapi.json';
function withWebhooks(response) {
  if (!response.url.endsWith(OPENAPI) || !response.ok) return response;
  const openapi = JSON.parse(response.text);
  response.text = JSON.stringify({ ...openapi, webhooks: openapi.components.pathItems });
  return response;
}
SwaggerUIBundle({
  dom_id: '#reference',
  url: OPENAPI,
  responseInterceptor: withWebhooks,
  validatorUrl: null,
  deepLinking: true,
  defaultModelsExpandDepth: 0,
});
`;

const SCRIPT = 'text/javascript; charset=utf-8';
/** The package's files and their types. */
const FILES = { 'swagger-ui.css': 'text/css; charset=utf-8', 'swagger-ui-bundle.js': SCRIPT } as const;

type Handler = (c: Context<ApiEnv>) => Response | Promise<Response>;

/** The handlers by path. */
export const DOCS: Readonly<Record<string, Handler>> = {
  '/docs': (c) => c.body(PAGE, 200, { ...HEADERS, 'content-type': 'text/html; charset=utf-8' }),
  '/docs/': (c) => c.body(null, 301, { location: '../docs' }),
  '/docs/start.js': (c) => c.body(START, 200, { ...HEADERS, 'content-type': SCRIPT }),
  ...Object.fromEntries(Object.entries(FILES).map(([name, type]) => [`/docs/${name}`, packageFile(name, type)])),
};

/** Reads the file for each request: the script has 1.7 MB. */
function packageFile(name: string, type: string): Handler {
  return async () => {
    const path = fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`));
    const { size } = await stat(path);
    return new Response(ReadableStream.from(bytes(path)), {
      headers: { ...HEADERS, 'content-type': type, 'content-length': String(size), 'cache-control': 'max-age=3600' },
    });
  };
}

/** Opens the file when the first bytes are read: a response to HEAD reads none. */
async function* bytes(path: string): AsyncGenerator<Buffer> {
  yield* createReadStream(path) as AsyncIterable<Buffer>;
}

import * as v from 'valibot';

/** It needs no key: tools fetch it without one, /docs shows it before one is entered, and it contains nothing about any account. */
export const OPENAPI: Described = {
  method: 'GET',
  path: '/api/v1/openapi.json',
  operation: {
    id: 'getOpenapi',
    tag: 'Service',
    summary: 'This description of the API',
    open: true,
    answer: {
      status: 200,
      description: 'OpenAPI 3.1',
      schema: v.looseObject({
        openapi: v.pipe(v.string(), v.regex(/^3\.1\./)),
        info: v.record(v.string(), v.unknown()),
        paths: v.record(v.string(), v.unknown()),
      }),
      example: { openapi: '3.1.1', info: { title: 'berth', version: '1.0.0' }, paths: {} },
      headers: ['ETag'],
      others: { 304: 'Not modified' },
    },
    refusals: [],
  },
};

/** The document is cached: it depends only on the origin of the request. */
export function showOpenapi(routes: readonly Described[], version: string): (c: Context<ApiEnv>) => Response {
  let made: ReturnType<typeof make> | undefined;
  return (c) => {
    const origin = originOf(c);
    if (made?.origin !== origin) made = make(routes, version, origin);
    const { text, headers } = made;
    return c.req.header('if-none-match') === headers.etag ? c.body(null, 304, headers) : json(text, 200, headers);
  };
}

/** The origin as the client knows it: HTTPS, which a proxy or berth terminates, and the host of the request. */
function originOf(c: Context<ApiEnv>): string {
  return `https://${new URL(c.req.url).host}`;
}

function make(routes: readonly Described[], version: string, origin: string) {
  const text = JSON.stringify(openapi(routes, version, origin));
  const etag = `"${hash('sha256', text, 'base64url').slice(0, 22)}"`;
  return { origin, text, headers: { etag, 'cache-control': 'no-cache' } };
}
