/** Debian's own clamd, with one signature: that of EICAR's test file. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { checkerOf } from '../../src/arrivals/checks/checker.ts';
import { webhookOf } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { checkedScratch, checkPlace, EICAR } from './check-place.ts';

async function clamd(place: Scratch, socket: string): Promise<ChildProcess & AsyncDisposable> {
  const folder = join(place.dir, 'clamav');
  mkdirSync(folder);
  writeFileSync(join(folder, 'eicar.ndb'), `Eicar-Test-Signature:0:*:${Buffer.from(EICAR).toString('hex')}\n`);
  const settings = [
    `LocalSocket ${socket}`,
    `DatabaseDirectory ${folder}`,
    'Foreground true',
    'StreamMaxLength 1M',
    'MaxThreads 2',
  ];
  writeFileSync(join(folder, 'clamd.conf'), `${settings.join('\n')}\n`);
  const child = spawn('clamd', ['--config-file', join(folder, 'clamd.conf')], { stdio: 'ignore' });
  const { hello } = checkerOf({ kind: 'clamd', place: { path: socket } });
  const isThere = async (): Promise<boolean> => hello(5).then(Boolean, () => false);
  await until('clamd answers', isThere);
  return Object.assign(child, {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      rmSync(socket, { force: true });
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  });
}

test('EICAR goes to the quarantine, plain and in an archive; clean files of all sizes are announced', async () => {
  const { place, socket } = checkedScratch();
  using _ = place;
  await using _clamd = await clamd(place, socket);
  await using at = await checkPlace(place);
  const { berth, directory } = at;
  const clean = { empty: '', small: 'all is well', large: Buffer.alloc(1024 * 1024 - 1, 'x') };
  for (const [name, data] of Object.entries(clean)) await at.put(name, data);
  await at.put('eicar.com', EICAR);
  await at.put('eicar.gz', gzipSync(EICAR));
  await at.untilHeld('both are found', (held) => held.filter(({ state }) => state === 'rejected').length === 2);
  const names = [];
  for (const _name of Object.keys(clean)) names.push(webhookOf(await berth.receiver.next()).filename);
  assert.deepEqual(names.toSorted(), Object.keys(clean).toSorted());
  assert.deepEqual(readdirSync(directory.files).toSorted(), Object.keys(clean).toSorted());
  const held = await at.held();
  assert.deepEqual(held.map(({ filename, reason }) => `${filename} ${reason}`).toSorted(), [
    'eicar.com Eicar-Test-Signature.UNOFFICIAL',
    'eicar.gz Eicar-Test-Signature.UNOFFICIAL',
  ]);
  assert.equal(berth.receiver.requests.length, 3);
});

test('clamd that is killed and comes back, and a file over its StreamMaxLength', async () => {
  const { place, socket } = checkedScratch({ BERTH_LOG_LEVEL: 'silent' });
  using _ = place;
  await using at = await checkPlace(place);
  const { berth } = at;
  {
    using elsewhere = scratch();
    await using _clamd = await clamd(elsewhere, socket);
    await at.put('too-large', Buffer.alloc(1024 * 1024 + 1));
    await at.put('first', '1');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'first');
  }
  await at.put('second', EICAR);
  await until('the second waits', async () => (await at.states()).includes('second checking'));
  assert.deepEqual(await at.states(), ['first uploaded', 'second checking', 'too-large checking']);
  const doctor = await runCommand(place.environment, 'doctor');
  assert.match(doctor.stdout, /fail\s+checks\s.*the checker cannot be reached/);
  await using _again = await clamd(place, socket);
  await at.untilHeld('it is rejected', (held) => held.some(({ state }) => state === 'rejected'));
  assert.deepEqual(await at.states(), ['first uploaded', 'too-large checking']);
  const healthy = await runCommand(place.environment, 'doctor');
  assert.match(healthy.stdout, /ok\s+checks\s+ClamAV 1\..*1 file waits/);
});

test('the version that clamd says is shown, and other programs are refused', async () => {
  const { place, socket } = checkedScratch();
  using _ = place;
  await using _clamd = await clamd(place, socket);
  const real = checkerOf({ kind: 'clamd', place: { path: socket } });
  assert.match(await real.hello(5), /^ClamAV 1\./);
  await using at = await checkPlace(place);
  const web = checkerOf({ kind: 'clamd', place: { host: '127.0.0.1', port: at.berth.service().port } });
  await assert.rejects(web.hello(5), /not clamd|without an answer/);
});
