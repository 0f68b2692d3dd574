/** SIGTERM: what is in flight is answered, recorded or handed back, within 10 s; sshd and its sessions notice nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openDatabase } from '../../src/db/open.ts';
import { webhookOf } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { faultyPlace } from './faulty-place.ts';

test('SIGTERM: the request in flight is answered, the hanging delivery handed back, the live upload goes on', async (t) => {
  using place = scratch();
  // The first request hangs, later ones are answered.
  await using berth = await faultyPlace(place, {
    respond: (response, _request, index) => void (index > 0 && response.writeHead(204).end()),
  });
  const { config, directory, hook } = berth;
  await using connection = await connect(directory.login);
  const session = await sftpSession(connection);
  await session.put('hangs', 'data');
  await hook.next();
  const handle = await session.open('live', 'w');
  await session.write(handle, 'first half ');

  const body = JSON.stringify({ directory: { description: 'while it stops' } });
  const outgoing = request({
    host: '127.0.0.1',
    port: config.api.port,
    ca: readFileSync(config.tls.cert),
    method: 'PATCH',
    path: `/api/v1/directories/${directory.id}`,
    headers: {
      authorization: `Bearer ${berth.key}`,
      'content-type': 'application/json',
      'content-length': body.length,
    },
  });
  outgoing.write(body.slice(0, 10));
  await wait(300); // its head has to arrive
  const began = performance.now();
  const ended = berth.serve().kill('SIGTERM');
  await wait(300);
  outgoing.end(body.slice(10));
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  assert.equal(answer.statusCode, 200);
  answer.resume();
  assert.equal(await ended, 0);
  const seconds = (performance.now() - began) / 1000;
  t.diagnostic(`ended within ${seconds.toFixed(1)} s`);
  assert.ok(seconds < 10);

  const database = await openDatabase(config.databaseFile);
  const rows = await database.db.selectFrom('deliveries').select(['state', 'attempts']).execute();
  await database.close();
  assert.deepEqual(rows, [{ state: 'queued', attempts: 1 }]);

  await session.write(handle, 'second half', 11);
  await session.close(handle);
  await berth.restart();
  const names = [webhookOf(await hook.next()).filename, webhookOf(await hook.next()).filename];
  assert.deepEqual(names.sort(), ['hangs', 'live']);
});
