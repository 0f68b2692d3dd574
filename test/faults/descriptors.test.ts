/** `berth serve` runs out of file descriptors: it keeps running, and goes on as soon as there are some again. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { faultyPlace } from './faulty-place.ts';

test('no file descriptors left: it lives on, and announces all when there are some again', async () => {
  using place = scratch({ BERTH_LOG_LEVEL: 'info' });
  await using berth = await faultyPlace(place);
  const { pid } = berth.serve();
  await using connection = await connect(berth.directory.login);
  const session = await sftpSession(connection);
  const limit = (soft: number): unknown => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${soft}:`]);
  limit(Math.max(...readdirSync(`/proc/${pid}/fd`).map(Number)) + 1);
  const names = Array.from({ length: 20 }, (_, index) => `file-${index}`);
  for (const name of names) await session.put(name, name);
  // It cannot accept this, and may drop it.
  using client = clientOf(berth.config, berth.key);
  client.send('GET', '/directories').catch(() => undefined);
  await wait(1000);
  assert.equal(berth.serve().process.exitCode, null);

  limit(4096);
  const announced = () => new Set(berth.hook.requests.map((request) => webhookOf(request).filename));
  await until('each is announced', () => names.every((name) => announced().has(name))).catch((error: unknown) => {
    throw new Error(berth.serve().output(), { cause: error });
  });
  await session.put('later', 'data');
  await until('the next is announced', () => announced().has('later'));
  using after = clientOf(berth.config, berth.key);
  assert.equal((await after.send('GET', '/directories')).status, 200);
  assert.equal(berth.serve().pid, pid);
});
