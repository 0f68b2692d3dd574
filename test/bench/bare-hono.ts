/** The best that `http/` could be: berth's own TLS server with one bare Hono route that answers fixed bytes. */
import { once } from 'node:events';
import { Hono } from 'hono';
import { readFileSync } from 'node:fs';
import { startHttpServer } from '../../src/http/server.ts';
import type { ApiEnv } from '../../src/http/observe.ts';
import { answerQuestions } from './child.ts';

export interface BareHonoQuestion {
  readonly cert: string;
  readonly key: string;
  readonly path: string;
  /** What it answers. */
  readonly body: string;
}

await answerQuestions(async ({ cert, key, path, body }: BareHonoQuestion) => {
  const app = new Hono<ApiEnv>();
  app.get(path, () => new Response(body, { headers: { 'content-type': 'application/json' } }));
  const tls = { cert: readFileSync(cert), key: readFileSync(key) };
  const server = await startHttpServer({ app, host: '127.0.0.1', port: 0, tls });
  void once(process.stdin, 'end').then(() => server.close(0));
  return { port: server.port };
});
