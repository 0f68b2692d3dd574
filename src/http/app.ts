/** The API's routes (specification, "Endpoints"). What each needs is handed to it here, and nothing more. */
import { Hono } from 'hono';
import type { CreateDependencies } from '../directories/create.ts';
import { directoryQueries } from '../directories/view.ts';
import type { Log } from '../log.ts';
import type { UploadQueries } from '../uploads/queries.ts';
import { type ApiEnv, authorized, identifier, type IdentifyDependencies } from './authentication.ts';
import { createOne } from './directories/create.ts';
import { destroyPublicKey } from './directories/destroy-public-key.ts';
import { destroyDirectory } from './directories/destroy.ts';
import { listUploads } from './directories/list-uploads.ts';
import { listDirectories } from './directories/list.ts';
import { showDirectory } from './directories/show.ts';
import { updateDirectory } from './directories/update.ts';
import { errorResponse, refusal } from './error-response.ts';
import { health, type HealthCheck } from './health.ts';

export interface AppDependencies extends IdentifyDependencies {
  /** What the rules work with. */
  readonly rules: CreateDependencies;
  readonly uploads: Pick<UploadQueries, 'list'>;
  readonly checkHealth: HealthCheck;
  readonly log: Log;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

export function createApp(deps: AppDependencies): Hono<ApiEnv> {
  const { rules, log } = deps;
  const directories = directoryQueries(rules.database.reads);
  const identify = identifier(deps);
  const api = authorized(identify);
  const app = new Hono<ApiEnv>();

  app.get('/healthz', health(deps.checkHealth, log));
  app.get('/api/v1/directories', api(listDirectories(directories)));
  app.post('/api/v1/directories', api(createOne(rules)));
  app.get('/api/v1/directories/:id', api(showDirectory(directories)));
  app.patch('/api/v1/directories/:id', api(updateDirectory(directories, rules)));
  app.delete('/api/v1/directories/:id', api(destroyDirectory(rules)));
  app.get('/api/v1/directories/:id/uploads', api(listUploads(directories, deps.uploads)));
  app.delete('/api/v1/directories/:id/public_key', api(destroyPublicKey(directories, rules)));

  app.notFound(async (c) => {
    await identify(c.env);
    // Routes know one method each: a path that another method has is not unknown (RFC 9110, sections 9.3.7 and 15.5.6).
    const allowed = METHODS.filter((method) => app.router.match(routed(method), c.req.path)[0].length > 0);
    if (allowed.length === 0) return refusal(404, 'Not found');
    const allow = { allow: [...allowed, 'OPTIONS'].join(', ') };
    return c.req.method === 'OPTIONS' ? c.body(null, 204, allow) : refusal(405, 'Method not allowed', allow);
  });
  app.onError((error, c) => errorResponse(error, log, c.env.notes.id));
  return app;
}

/** Hono answers HEAD by the route of GET. */
function routed(method: string): string {
  return method === 'HEAD' ? 'GET' : method;
}
