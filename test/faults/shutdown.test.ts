/**
 * SIGTERM: requests are answered, uploads recorded and deliveries handed back within 10 s; sshd and its sessions continue.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { connect as connectTo } from 'node:net';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
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
      expect: '100-continue',
    },
  });
  outgoing.flushHeaders();
  await once(outgoing, 'continue'); // its head has arrived
  const began = performance.now();
  const ended = berth.serve().kill('SIGTERM');
  await until('it accepts nothing more', () => isRefused(config.api.port));
  // While it waits for the request. An attempt has five seconds for an answer, of which nothing else takes any.
  await session.put('hangs', 'data');
  await hook.next();
  outgoing.end(body);
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  assert.equal(answer.statusCode, 200);
  answer.resume();
  assert.equal(await ended, 0);
  t.diagnostic(`ended within ${((performance.now() - began) / 1000).toFixed(1)} s`);

  const database = await openDatabase(config.database);
  const rows = await database.db.selectFrom('deliveries').select(['state', 'attempts']).execute();
  const attempts = await database.db.selectFrom('attempts').select('error').execute();
  await database.close();
  assert.deepEqual(
    [rows, attempts],
    [[{ state: 'queued', attempts: 1 }], [{ error: 'berth stopped during this attempt' }]],
  );

  await session.write(handle, 'second half', 11);
  await session.close(handle);
  await berth.restart();
  const names = [webhookOf(await hook.next()).filename, webhookOf(await hook.next()).filename];
  assert.deepEqual(names.sort(), ['hangs', 'live']);
});

async function isRefused(port: number): Promise<boolean> {
  const socket = connectTo(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}
