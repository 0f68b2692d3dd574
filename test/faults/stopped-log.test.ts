/** A process is stopped for longer than a connection to the transfer log may be silent: no message is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { logChild } from './log-child.ts';

const STOPS = 4;
/** Longer than a silent connection is kept. */
const STOP_MS = 1300;

test('messages that arrive around a stop of some seconds are all heard', async () => {
  using place = scratch();
  using child = logChild(place.dir);
  await until('it listens', () => child.socket !== undefined);
  let sent = 0;
  const over = new AbortController();
  await child.say('session opened for local user acme from [192.0.2.7]');
  sent += 1;
  const flood = async (): Promise<void> => {
    while (!over.signal.aborted) await child.say(`remove name "${(sent += 1)}"`);
  };
  const floods = Array.from({ length: 16 }, flood);
  for (let stop = 0; stop < STOPS; stop += 1) {
    await wait(50);
    child.kill('SIGSTOP');
    await wait(STOP_MS);
    child.kill('SIGCONT');
  }
  over.abort();
  await Promise.all(floods);
  await until('all is heard', () => child.heard.length >= sent).catch(() => undefined);
  assert.equal(new Set(child.heard).size, sent);
});
