/**
 * The API for root's commands on this machine (`berth directory …`), on a Unix socket that only root can open. A command
 * names its account and its operator. It may do whatever an admin key of that account may, on any plan and without a rate
 * limit.
 */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import type { Kysely } from 'kysely';
import type { Principal } from '../../rules/api-keys/authenticate.ts';
import { UNLIMITED } from '../../rules/accounts/actor.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Log } from '../../foundation/base/log.ts';
import { ACCOUNT, OPERATOR, operatorKeyId } from '../../foundation/base/operator-socket.ts';
import type { Identify } from './access.ts';
import { type ApiEnv, type NameRequest, REQUEST_ID } from '../web/observe.ts';
import { dataResponse, errorResponse, refusal } from '../web/responses.ts';
import type { HttpServerOptions } from './server.ts';
import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { OperatorError } from '../../foundation/base/errors.ts';
import type { Depart, Departure } from '../../operating/nodes/move/departure.ts';

/** How long requests in flight may take once the server closes. */
const GRACE_MS = 1000;

export function byOperator(reads: Kysely<Tables>): Identify {
  const identify = async ({ incoming: { headers }, notes }: ApiEnv['Bindings']): Promise<Principal | undefined> => {
    const account = String(headers[ACCOUNT] ?? '');
    const login = String(headers[OPERATOR] ?? '');
    const found = await reads
      .selectFrom('accounts')
      .select('id')
      .where('id', '=', account)
      .where('deleted_at', 'is', null)
      .executeTakeFirst();
    if (!found) return undefined;
    const keyId = operatorKeyId(login);
    notes.principal = { accountId: found.id, keyId, role: 'admin', plan: 'business', scope: UNLIMITED };
    return notes.principal;
  };
  return Object.assign(identify, { countStranger: () => undefined });
}

export interface OperatorServerOptions {
  readonly app: HttpServerOptions['app'];
  readonly nameRequest: NameRequest;
  readonly log: Log;
}

/** Listens on the socket, and replaces one that an earlier process has left. If that fails, everything else goes on. */
export async function serveOperators(
  socket: string,
  { app, nameRequest, log }: OperatorServerOptions,
): Promise<{ close(): Promise<void> }> {
  const answer = getRequestListener((request, env) => app.fetch(request, env as HttpBindings), {
    errorHandler: () => refusal(400, 'Bad request'),
  });
  const server = createServer((request, response) => {
    response.setHeader(REQUEST_ID, nameRequest(request));
    void answer(request, response);
  });
  try {
    rmSync(socket, { force: true });
    const listening = once(server, 'listening');
    // Node binds before `listen` returns, so nobody else can open the socket, not even for a moment.
    const mask = process.umask(0o177);
    server.listen(socket);
    process.umask(mask);
    await listening;
  } catch (error) {
    log.error({ err: error, socket }, 'berth directory cannot reach this service: its socket could not be made');
  }
  return {
    async close() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      const late = setTimeout(() => server.closeAllConnections(), GRACE_MS);
      await closed;
      clearTimeout(late);
    },
  };
}

import * as v from 'valibot';

const Wanted = v.object({ to: v.string() });

/**
 * Adds the requests with which `berth node move` makes a directory leave this node. The response to the first request stays open
 * until the move is over. If the command ends before that, for whatever reason, the directory's user can log in again.
 */
export function withMoves(api: Hono<ApiEnv>, depart: Depart, log: Log): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const open = new Map<string, Departure>();

  app.post('/moves/:id', async (c) => {
    const { to } = v.parse(Wanted, await c.req.json());
    c.env.notes.route = '/moves/:id';
    const keyId = operatorKeyId(c.req.header(OPERATOR) ?? '');
    const by = { keyId, requestId: c.env.notes.id, route: 'berth node move' };
    const departure = await depart({ id: c.req.param('id'), to, by });
    const name = randomUUID();
    const end = async (): Promise<void> => {
      open.delete(name);
      await departure.end();
    };
    open.set(name, departure);
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(`${name}\n`)),
      cancel: end,
    });
    return new Response(body);
  });

  app.post('/moves/:name/commit', async (c) => {
    const departure = open.get(c.req.param('name'));
    if (!departure) return refusal(409, 'berth serve was restarted meanwhile, so nothing was changed. Try again.');
    return dataResponse(JSON.stringify(await departure.commit()));
  });

  app.all('*', (c) => api.fetch(c.req.raw, c.env));
  app.onError((error, c) =>
    error instanceof OperatorError ? refusal(409, error.message) : errorResponse(error, log, c.env.notes.id),
  );
  return app;
}
