/**
 * What one session does as fast as it can, and how little that affects a neighbour. `npm run torture` has the figures.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { assertWithin, rounds } from '../support/long.ts';
import { percentile } from '../support/percentile.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, OPEN, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { startSshd } from '../support/sshd.ts';

const MIB = 1024 * 1024;
const FOLDERS = rounds(2000, 30_000);
/** Measurements without and with the flood. */
const [CALM, UNDER] = [rounds(3, 20), rounds(3, 40)];

/** `berth serve` as a process, a hostile user's session and a neighbour's, and how long the neighbour waits. */
async function neighbours() {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const sshd = parts.use(await startSshd(place));
  const { config, environment } = await fixedPorts(place, sshd, { BERTH_RATE_LIMIT: '1000000' });
  const hook = parts.use(await receiver());
  const key = await issueKey(config);
  const serve = parts.use(await startServe(config, environment));
  const client = parts.use(clientOf(config, key));

  async function session(): Promise<RawSftp> {
    const made = await client.send('POST', '/directories', { json: { directory: { name: 'n' } } });
    const { id, ...shown } = (made.json as { data: Record<string, string> }).data;
    await client.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: hook.url } } });
    const { sftp_username: username = '', sftp_password: password = '' } = shown;
    return rawSftp(parts.use(await connect({ port: sshd.port, username, password })));
  }
  const hostile = await session();
  const neighbour = await session();
  let count = 0;

  /** Milliseconds from the answer to the close until the webhook is there. */
  async function announced(): Promise<number> {
    const name = `file-${count++}`;
    assert.ok(await neighbour.put(name, 'x'));
    const closed = performance.now();
    let found: Received | undefined;
    await until(`${name} is announced`, () => {
      found = hook.requests.find(({ body }) => body.includes(`"${name}"`));
      return found !== undefined;
    });
    return Math.max(0, (found?.at ?? 0) - closed);
  }
  async function asked(): Promise<number> {
    const began = performance.now();
    assert.equal((await client.send('GET', '/directories?limit=1')).status, 200);
    return performance.now() - began;
  }
  /** Some of each, one after the other. */
  async function measure(times: number) {
    const webhooks: number[] = [];
    const requests: number[] = [];
    for (let i = 0; i < times; i++) {
      webhooks.push(await announced());
      requests.push(await asked());
      await wait(20);
    }
    return { webhook: percentile(webhooks, 0.5), worst: Math.max(...webhooks), request: percentile(requests, 0.5) };
  }
  const memory = (): number => {
    const [, kib] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${serve.pid}/status`, 'utf8')) ?? [];
    return (Number(kib) * 1024) / MIB;
  };
  const owned = parts.move();
  return { hostile, measure, memory, serve, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** How many times as long things may take beside the flood. Some ten is what its own work makes; a stall is a matter of seconds. */
const MOST = 100;

function assertSoonEnough(what: string, under: number, calm: number): void {
  assert.ok(under < MOST * calm, `${what} take ${under} ms beside the flood, ${calm} ms alone`);
}

test('900 handles below a folder whose rename is repeatedly refused', async (t) => {
  await using at = await neighbours();
  const { hostile } = at;
  const calm = await at.measure(CALM);
  await hostile.request(FXP.MKDIR, 'd', NO_ATTRIBUTES);
  await hostile.request(FXP.MKDIR, 'e', NO_ATTRIBUTES);
  for (let i = 0; i < 900; i++) assert.ok(await hostile.open(`d/${i}`, CREATE_ANEW), `handle ${i}`);
  assert.ok(await hostile.put('e/full', 'x'));
  const calmAgain = new AbortController();
  const rage = (async () => {
    while (!calmAgain.signal.aborted) {
      const all = [
        hostile.rename('d', 'd'),
        hostile.rename('d', 'e'),
        hostile.replace('d', 'e'),
        hostile.replace('d', 'd/0'),
      ];
      await Promise.all(all);
    }
  })();
  const under = await at.measure(UNDER);
  calmAgain.abort();
  await rage;
  t.diagnostic(JSON.stringify({ calm, under }));
  assertSoonEnough('requests', under.request, calm.request);
  assertSoonEnough('webhooks', under.webhook, calm.webhook);
});

/** Bytes that are not UTF-8, in a path of 3,000 bytes. */
const DEEP = Buffer.from(Array.from({ length: 12 }, () => 'é'.repeat(249)).join('/'), 'latin1');

for (const [what, name] of [
  ['a file', Buffer.from('read')],
  ['a file with a path of 3,000 bytes that are not UTF-8', DEEP],
] as const) {
  test(`${what}, opened and closed for reading as fast as can be`, async (t) => {
    await using at = await neighbours();
    const { hostile } = at;
    for (let end = name.indexOf('/'); end !== -1; end = name.indexOf('/', end + 1))
      await hostile.request(FXP.MKDIR, name.subarray(0, end), NO_ATTRIBUTES);
    assert.ok(await hostile.put(name, 'x'));
    const calm = await at.measure(CALM);
    const before = at.memory();
    let opens = 0;
    const calmAgain = new AbortController();
    const rage = (async () => {
      const handle = Buffer.alloc(4); // sshd numbers its handles from 0, and gives the lowest free number
      for (; !calmAgain.signal.aborted; opens += 200) {
        const all = Array.from({ length: 200 }, () => [
          hostile.request(FXP.OPEN, name, OPEN.read, NO_ATTRIBUTES),
          hostile.request(FXP.CLOSE, handle),
        ]);
        await Promise.all(all.flat());
      }
    })();
    const under = await at.measure(UNDER);
    let { worst } = under;
    while (opens < rounds(0, 200_000)) worst = Math.max(worst, (await at.measure(10)).worst);
    const after = at.memory();
    calmAgain.abort();
    await rage;
    t.diagnostic(JSON.stringify({ calm, under, worst, opens, before, after }));
    assertSoonEnough('webhooks', under.webhook, calm.webhook);
    assertWithin(300, worst - calm.webhook, 'ms by which the worst webhook was late');
    assertWithin(150, after - before, `MiB by which memory grew, from ${before}`);
  });
}

test(`${FOLDERS} empty folders`, async (t) => {
  await using at = await neighbours();
  const { hostile } = at;
  const calm = await at.measure(CALM);
  const before = at.memory();
  const rage = (async () => {
    for (let i = 0; i < FOLDERS; i += 500) {
      const some = Array.from({ length: 500 }, (_, j) => hostile.request(FXP.MKDIR, `d${i + j}`, NO_ATTRIBUTES));
      await Promise.all(some);
    }
  })();
  const under = await at.measure(UNDER);
  await rage;
  // Only a long run asserts something about memory.
  await wait(rounds(0, 3000));
  const after = at.memory();
  t.diagnostic(JSON.stringify({ calm, under, before, after }));
  assertSoonEnough('requests', under.request, calm.request);
  assertWithin(150, after - before, `MiB by which memory grew, from ${before}`);
});
