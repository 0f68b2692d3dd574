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

test('no file descriptors left, or a few: it lives on, and announces all when there are some again', async () => {
  using place = scratch({ BERTH_LOG_LEVEL: 'info' });
  await using berth = await faultyPlace(place);
  const { pid } = berth.serve();
  await using connection = await connect(berth.directory.login);
  const session = await sftpSession(connection);
  const announced = () => berth.hook.requests.map((request) => webhookOf(request).filename);
  for (const free of [0, 1, 2, 3, 5]) {
    const long = await session.open(`long-${free}`, 'w');
    await session.write(long, 'half');
    leaveFree(pid, free);
    const names = Array.from({ length: 20 }, (_, index) => `file-${free}-${index}`);
    for (const name of names) await session.put(name, name);
    // It cannot accept this, and may drop it.
    using client = clientOf(berth.config, berth.key);
    client.send('GET', '/directories').catch(() => undefined);
    await wait(1000);
    assert.equal(berth.serve().process.exitCode, null);

    setLimit(pid, 4096);
    await until(`with ${free} left, each is announced`, () => names.every((name) => announced().includes(name))).catch(
      (error: unknown) => {
        throw new Error(berth.serve().output(), { cause: error });
      },
    );
    assert.ok(!announced().includes(`long-${free}`), 'not before it is closed');
    await session.write(long, 'half', 4);
    await session.close(long);
    await until('what was open meanwhile is announced', () => announced().includes(`long-${free}`));
  }
  assert.equal(new Set(announced()).size, announced().length, 'none is announced twice');
  using after = clientOf(berth.config, berth.key);
  assert.equal((await after.send('GET', '/directories')).status, 200);
  assert.equal(berth.serve().pid, pid);
});

/** Sets a limit for new descriptors, which have the lowest number that is free. */
function leaveFree(pid: number, free: number): void {
  const used = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let limit = 0;
  for (let left = free; left > 0 || used.has(limit); limit += 1) if (!used.has(limit)) left -= 1;
  setLimit(pid, limit);
}

function setLimit(pid: number, limit: number): void {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${limit}:`]);
}
