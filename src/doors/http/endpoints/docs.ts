/**
 * GET /docs: the reference, shown by Swagger UI from its npm package. Nothing is loaded from elsewhere and nothing is inline, so
 * the content security policy is strict. All URLs are relative, so that it works behind a proxy that adds a prefix to the path.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Context } from 'hono';
import type { ApiEnv } from '../../web/observe.ts';

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
