/**
 * The requests with which `berth node move` makes a directory leave this node (over the socket of `operators.ts`). The response
 * to the first request stays open until the move is over. If the command ends before that, for whatever reason, the directory's
 * user can log in again.
 */
import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import * as v from 'valibot';
import { OperatorError } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { Depart, Departure } from '../../operating/nodes/move/departure.ts';
import { OPERATOR, operatorKeyId } from '../../foundation/base/operator-socket.ts';
import type { ApiEnv } from '../web/observe.ts';
import { dataResponse, errorResponse, refusal } from '../web/responses.ts';

const Wanted = v.object({ to: v.string() });

/** Adds moves to the API. */
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
