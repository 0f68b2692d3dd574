/** The API's routes. */
import { byOperator, serveOperators, withMoves } from './operators.ts';
import type { AppContext } from '../web/context.ts';
import { operatorSocket } from '../../foundation/base/operator-socket.ts';
import type { IncomingMessage } from 'node:http';
import { Hono } from 'hono';
import { byApiKey, countOpen, createAccess, type Endpoint, type Identify, type Reach } from './access.ts';
import { version } from '../../foundation/base/version.ts';
import { deliveryRoutes } from './endpoints/deliveries.ts';
import { eventRoutes } from './endpoints/events.ts';
import { directoryRoutes } from './endpoints/directories.ts';
import { DOCS, OPENAPI, showOpenapi } from './endpoints/docs.ts';
import { fileRoutes } from './endpoints/files.ts';
import { heldRoutes, partialRoutes } from './endpoints/partial-files.ts';
import { LINK, linkEndpoint } from './endpoints/link.ts';
import { linkRoutes } from './endpoints/links.ts';
import { hostKeyRoutes } from './endpoints/host-keys.ts';
import { accessRoutes, passwordRoutes, publicKeyRoutes, quotaRoutes } from './endpoints/access.ts';
import { apiKeyRoutes } from './endpoints/api-keys.ts';
import { uploadRoutes } from './endpoints/uploads.ts';
import { accountWebhookRoutes, wantedEventRoutes, webhookRoutes } from './endpoints/webhook.ts';
import { HEALTH, health } from './health.ts';
import { createRepeatable } from './idempotency.ts';
import { type ApiEnv, observed } from '../web/observe.ts';
import type { Described } from './openapi/document.ts';
import { errorResponse, refusal, SECRET } from '../web/responses.ts';
import { rawPath } from '../web/requested-path.ts';
import { checkingQueryNames, type Route } from './route.ts';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The API for clients with a key, whose requests `ports.ts` receives, and for operators on a socket of their own. */
export async function startApi(context: AppContext) {
  const { config, database, depart, web, log } = context;
  const byLink = linkEndpoint(context);
  const ofOperators = createApp(context, byLink, byOperator(database.reads), [...heldRoutes(context)]);
  const operators = await serveOperators(operatorSocket(config), {
    app: observed(depart ? withMoves(ofOperators, depart, log) : ofOperators, context),
    nameRequest: web.nameRequest,
    log,
  });
  return {
    app: observed(createApp(context, byLink, byApiKey(web)), context),
    /** Call it when no more requests come. */
    close: operators.close,
  };
}

/** By default, keys that are limited to directories cannot use an endpoint outside of `/directories/:id`. */
function reachOf({ method, path, operation }: Omit<Route, 'endpoint'>): Reach {
  const isOfDirectory = path.startsWith('/api/v1/directories/:id');
  return {
    of: isOfDirectory ? 'directory' : operation.isNarrowed ? 'narrowed' : 'account',
    isChange: method !== 'GET',
  };
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** The endpoints that require a key. */
export function routesOf(context: AppContext): Route[] {
  return [
    directoryRoutes,
    quotaRoutes,
    passwordRoutes,
    publicKeyRoutes,
    accessRoutes,
    uploadRoutes,
    eventRoutes,
    hostKeyRoutes,
    fileRoutes,
    partialRoutes,
    linkRoutes,
    deliveryRoutes,
    accountWebhookRoutes,
    wantedEventRoutes,
    webhookRoutes,
    apiKeyRoutes,
  ].flatMap((routes) => routes(context));
}

/** Everything that openapi.json describes. */
export function described(routes: readonly Route[]): Described[] {
  return [...routes, HEALTH, OPENAPI];
}

/** @param operatorRoutes for root's commands, which may do more than the API allows. */
function createApp(
  context: AppContext,
  byLink: ReturnType<typeof linkEndpoint>,
  identify: Identify,
  operatorRoutes: ReturnType<typeof heldRoutes> = [],
): Hono<ApiEnv> {
  const { log } = context;
  const { authorized, open } = createAccess(identify);
  const routes = routesOf(context);
  const repeatable = createRepeatable(context);
  // The path as it was sent. Hono would decode it first, so that `/%61pi` would be the API too.
  const app = new Hono<ApiEnv>({ getPath: (_, bindings) => rawPath(bindings?.env?.incoming ?? {}) });

  app.get(HEALTH.path, health(context.checkHealth, log));
  const openapiJson = showOpenapi(described(routes), version);
  app.get(
    OPENAPI.path,
    open(async (c) => compressed(c.env.incoming, openapiJson(c))),
  );
  for (const [path, page] of Object.entries(DOCS)) app.get(path, open(page));
  for (const { method, path, endpoint, operation } of routes) {
    const isJson = operation.body !== undefined && operation.body !== 'bytes';
    const isPost = method === 'POST';
    const readsBody = ({ headers }: IncomingMessage): boolean =>
      isJson || (isPost && headers['idempotency-key'] !== undefined);
    const checked = checkingQueryNames(isPost ? repeatable(endpoint) : endpoint, operation);
    const answer: Endpoint = async (c, ...who) => compressed(c.env.incoming, await checked(c, ...who));
    app.on(method, path, authorized(answer, reachOf({ method, path, operation }), readsBody));
  }
  app.on(['GET', 'POST', 'PUT'], LINK, open(byLink));
  for (const { method, path, endpoint } of operatorRoutes)
    app.on(
      method,
      path,
      authorized(endpoint, { of: 'directory', isChange: true }, () => false),
    );

  app.notFound(async (c) => {
    await countOpen(identify, c.env);
    // A path with a route for another method is not unknown (RFC 9110, sections 9.3.7 and 15.5.6). Hono uses the route of GET
    // for HEAD.
    const isRoute = (method: string): boolean =>
      app.router.match(method === 'HEAD' ? 'GET' : method, c.req.path)[0].length > 0;
    const allowed = METHODS.filter(isRoute);
    if (allowed.length === 0) return refusal(404, 'Not found');
    const allow = { allow: [...allowed, 'OPTIONS'].join(', ') };
    return c.req.method === 'OPTIONS' ? c.body(null, 204, allow) : refusal(405, 'Method not allowed', allow);
  });
  app.onError((error, c) => errorResponse(error, log, c.env.notes.id));
  return app;
}

const SMALLEST_BYTES = 1024;

const zip = promisify(gzip);

/**
 * Compresses JSON responses of more than 1 KiB for clients that accept gzip. Responses with a secret are not compressed: next to
 * text that a customer has chosen, the compressed length would reveal the secret to an observer of the network, bit by bit
 * (BREACH).
 *
 * Compresses the response if it should be. A response without a length is a long list, and is compressed while it is sent.
 */
async function compressed({ headers, method }: IncomingMessage, answer: Response): Promise<Response> {
  const length = answer.headers.get('content-length');
  const isJson = answer.headers.get('content-type') === 'application/json';
  const isSecret = answer.headers.get('cache-control') === SECRET['cache-control'];
  if (!isJson || isSecret || method === 'HEAD' || (length !== null && Number(length) <= SMALLEST_BYTES)) return answer;
  answer.headers.append('vary', 'accept-encoding');
  if (!takesGzip(headers['accept-encoding'])) return answer;
  const zipped =
    length === null
      ? answer.body?.pipeThrough(new CompressionStream('gzip'))
      : new Uint8Array(await zip(Buffer.from(await answer.arrayBuffer())));
  const kept = new Headers(answer.headers);
  kept.delete('content-length');
  kept.set('content-encoding', 'gzip');
  return new Response(zipped ?? null, { status: answer.status, headers: kept });
}

/** A weight of 0 refuses gzip (RFC 9110, section 12.5.3). */
function takesGzip(accepted: string | string[] | undefined): boolean {
  return String(accepted ?? '')
    .split(',')
    .some((each) => /^\s*gzip\s*(;\s*q=(1(\.0*)?|0\.0*[1-9]\d*)\s*)?$/i.test(each));
}
