/**
 * GET /api/v1/openapi.json. It needs no key: tools fetch it without one, /docs shows it before one is entered, and it contains
 * nothing about any account.
 */
import { hash } from 'node:crypto';
import type { Context } from 'hono';
import * as v from 'valibot';
import type { ApiEnv } from '../../web/observe.ts';
import { type Described, openapi } from '../openapi/document.ts';
import { json } from '../../web/responses.ts';

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
