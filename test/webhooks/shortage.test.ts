/** An attempt that fails because this machine lacks a resource does not count. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { isShortage, resolver } from '../../src/deliveries/webhooks/destination-guard.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { outboxPlace, type PlaceOptions } from './outbox-place.ts';

import assert from 'node:assert/strict';

interface Descriptors extends AsyncDisposable {
  /** Lets this process open nothing more. */
  take(): Promise<void>;
  /** As it was before. */
  giveBack(): Promise<void>;
}

/** A shell that was there before the descriptors went sets their limit. */
async function descriptors(): Promise<Descriptors> {
  const shell = spawn('sh', ['-c', 'while read soft; do prlimit --pid $PPID --nofile=$soft:; echo; done'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface(shell.stdout)[Symbol.asyncIterator]();
  const limit = async (soft: string | number): Promise<void> => {
    shell.stdin.write(`${soft}\n`);
    await lines.next();
  };
  const before = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? '';
  return {
    // Not as many as are open: one that is closed meanwhile would make room.
    take: () => limit(0),
    giveBack: () => limit(before),
    async [Symbol.asyncDispose]() {
      shell.stdin.end();
      await once(shell, 'exit');
    },
  };
}

/** Without descriptors until `seen` attempts have ended, then with enough of them. */
async function starved(url: (port: string) => string, seen: number, options: PlaceOptions = {}) {
  await using own = await descriptors();
  await using place = await outboxPlace(options);
  await using target = await receiver();
  const id = await place.put(url(new URL(target.url).port));
  const outcomes: string[] = [];
  await own.take();
  try {
    place.start(({ outcome }) => outcomes.push(outcome));
    await until(`${seen} attempts have ended`, () => outcomes.length >= seen);
  } finally {
    await own.giveBack();
  }
  const { state, attempts } = await place.until(id, 'delivered', 'failed');
  return { state, attempts, outcomes, rows: await place.attempts(id), requests: target.requests.length };
}

test('attempts without a descriptor do not count: six of them, and then it is delivered by the first', async () => {
  const { outcomes, rows, ...rest } = await starved((port) => `http://127.0.0.1:${port}/hook`, 6);
  assert.deepEqual(rest, { state: 'delivered', attempts: 1, requests: 1 });
  assert.deepEqual(new Set(outcomes.slice(0, 6)), new Set(['retry']));
  assert.deepEqual(
    rows.map(({ number, status }) => [number, status]),
    [[1, 204]],
  );
});

test('nor does a name count that could not be looked up for the same reason', async () => {
  using hosts = scratch();
  const hostsFile = join(hosts.dir, 'hosts');
  writeFileSync(hostsFile, '127.0.0.1 receiver.test\n');
  const options = { resolve: resolver({ hostsFile }) };
  const { state, attempts, requests } = await starved((port) => `http://receiver.test:${port}/hook`, 5, options);
  assert.deepEqual({ state, attempts, requests }, { state: 'delivered', attempts: 1, requests: 1 });
});

test('a day after the upload they count, so that retries end', async () => {
  const clock = systemClock();
  let ahead = 0;
  const moved = { now: () => clock.now() + ahead };
  await using own = await descriptors();
  await using place = await outboxPlace({ clock: moved });
  const id = await place.put('http://127.0.0.1:9/');
  ahead = DAY;
  await own.take();
  try {
    place.start();
    const { attempts } = await place.until(id, 'failed');
    assert.equal(attempts, 4);
    assert.match((await place.attempts(id))[3]?.error ?? '', /EMFILE/);
  } finally {
    await own.giveBack();
  }
});

test('only what failed before there was a connection is a shortage', () => {
  const failure = (code: string, syscall: string): Error => Object.assign(new Error(code), { code, syscall });
  assert.ok(isShortage(failure('EADDRNOTAVAIL', 'connect')) && isShortage(failure('ENFILE', 'open')));
  assert.ok(isShortage(new AggregateError([failure('EMFILE', 'connect'), failure('ENOBUFS', 'connect')])));
  assert.ok(!isShortage(new AggregateError([failure('EMFILE', 'connect'), failure('ECONNREFUSED', 'connect')])));
  assert.ok(!isShortage(failure('ENOBUFS', 'write')) && !isShortage(failure('ECONNREFUSED', 'connect')));
  assert.ok(!isShortage(new AggregateError([])) && !isShortage(new Error('EMFILE')) && !isShortage(undefined));
});
