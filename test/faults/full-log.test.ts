/** The log's own disk is full: answers stay the same and nothing stops; logging continues once there is room. */
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';
import { smallDisk } from './small-disk.ts';

test('a full disk of the log changes no answer and ends no request', async () => {
  using place = scratch({ BERTH_LOG_LEVEL: 'debug' });
  await using sshd = await startSshd(place);
  const { config, environment } = await fixedPorts(place, sshd);
  using disk = smallDisk(join(place.dir, 'logs'), 'size=256k');
  const file = join(place.dir, 'logs', 'berth.log');
  const key = await issueKey(config);
  const descriptor = openSync(file, 'a');
  await using serve = await startServe(config, environment, { stderr: descriptor });
  closeSync(descriptor);
  using client = clientOf(config, key);
  disk.fill();

  const created = await client.send('POST', '/directories', { json: { directory: { name: 'Unlogged' } } });
  assert.equal(created.status, 201);
  const { data } = created.json as { data: { id: string; sftp_password: string } };
  assert.ok(data.sftp_password.length > 0);
  const path = `/directories/${data.id}`;
  const changed = await client.send('PATCH', path, { json: { directory: { description: 'unlogged' } } });
  assert.equal(changed.status, 200);
  for (let count = 0; count < 50; count += 1) assert.equal((await client.send('GET', path)).status, 200);
  assert.equal((await client.send('DELETE', path)).status, 204);
  assert.equal((await client.send('GET', '//healthz')).status, 200);
  assert.equal(serve.process.exitCode, null);

  disk.free();
  const { headers } = await client.send('GET', path);
  const id = String(headers['x-request-id']);
  await until('it is logged again', () => readFileSync(file, 'utf8').includes(id));
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  for (const line of lines) JSON.parse(line);
  assert.ok(
    lines.some((line) => line.includes(String(created.headers['x-request-id']))),
    'what waited was written, too',
  );
});
