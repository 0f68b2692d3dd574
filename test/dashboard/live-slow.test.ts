/** A live page whose client does not read: berth renders nothing that the client does not take. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { DashboardEnv } from '../../src/interfaces/dashboard/environment.ts';
import { createLive } from '../../src/interfaces/dashboard/live.tsx';
import { createLog } from '../../src/foundation/base/log.ts';
import { createFileChanges } from '../../src/arrivals/uploads/file-changes.ts';
import { openUserSession, sessionOf } from '../../src/rules/users/sessions.ts';
import { hosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

/** More than the buffers of a connection on one machine hold. */
const PART = 'x'.repeat(8 * 1024 * 1024);

test('a client that never reads gets what its connection holds, and no more is generated', async (t) => {
  using place = scratch();
  await using api = await hosted(place);
  const { database, tenant } = api;
  const { id } = await api.directory();
  const clock = systemClock();
  const now = clock.now();
  const row = { id: randomUUID(), account_id: tenant.accountId, email: 'a@b.example', role: 'admin' } as const;
  const token = await database.db.transaction().execute(async (tx) => {
    await tx
      .insertInto('users')
      .values({ ...row, totp_step: 0, inserted_at: now })
      .execute();
    return openUserSession(tx, row.id, { now, visit: { address: '', agent: '' }, awaitsCode: false });
  });
  const user = await sessionOf({ database, clock }, token);
  assert.ok(user);
  const changes = createFileChanges();
  const closing = new AbortController();
  const live = createLive({ database, clock, changes, log: createLog('silent') }, closing.signal);
  let made = 0;
  const app = new Hono<DashboardEnv>();
  app.get('/events', (c) => {
    c.set('user', user);
    return live(c, { directoryId: id }, async () => {
      made += 1;
      return PART;
    });
  });
  const notes = { id: 'x', route: undefined, principal: undefined };
  const listener = getRequestListener((request, env) => app.fetch(request, { ...(env as HttpBindings), notes }));
  const server = createServer((request, response) => void listener(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => {
    client.destroy();
    server.close();
  });
  client.pause();
  client.write(`GET /events HTTP/1.1\r\nHost: x\r\nCookie: __Host-berth=${token}\r\n\r\n`);
  await until('it has begun', () => made > 0);
  const change = { at: 1, directory_id: id, account_id: '', username: '', event: 'uploaded' } as const;
  for (let count = 0; count < 80; count += 1) {
    changes.committed([change]);
    await wait(100);
  }
  // The one that is being sent and those that wait behind it, of the eight that a client who reads would have received.
  assert.ok(made <= 4, `${made} were made in 8 s of changes`);

  let received = 0;
  client.on('data', (data) => (received += data.length)).resume();
  await until('it goes on when it is read', () => received > 2 * PART.length);
  closing.abort();
  await once(client, 'end');
});
