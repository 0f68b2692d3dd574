/** Serves the stylesheet, the scripts and the mark: files of `static/`, read and compressed once, with an ETag of their content. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Hono } from 'hono';
import type { DashboardEnv } from './environment.ts';

const TYPES = {
  'style.css': 'text/css; charset=utf-8',
  'script.js': 'text/javascript; charset=utf-8',
  'dom.js': 'text/javascript; charset=utf-8',
  'find.js': 'text/javascript; charset=utf-8',
  'mark.svg': 'image/svg+xml',
} as const;

/** Read from `src/`, which an installation has beside the compiled program. */
const FOLDER = new URL('../../../src/interfaces/dashboard/static/', import.meta.url);

export function serveAssets(app: Hono<DashboardEnv>): void {
  for (const [name, type] of Object.entries(TYPES)) {
    const text = readFileSync(new URL(name, FOLDER), 'utf8');
    const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 16)}"`;
    const headers = { etag, 'content-type': type, 'cache-control': 'max-age=600', vary: 'accept-encoding' };
    const compressed = new Uint8Array(gzipSync(text));
    app.get(`/dashboard/static/${name}`, (c) => {
      if (c.req.header('if-none-match') === etag) return c.body(null, 304, headers);
      return /\bgzip\b/.test(c.req.header('accept-encoding') ?? '')
        ? c.body(compressed, 200, { ...headers, 'content-encoding': 'gzip' })
        : c.body(text, 200, headers);
    });
  }
}
