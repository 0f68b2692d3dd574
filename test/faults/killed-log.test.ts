/** A process is killed right after it has read messages of sshd's log: they are in the journal. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { logChild } from './log-child.ts';

const KILLS = 12;
const MESSAGES = 64;

test('messages that were read before a kill are in the journal', async () => {
  const kills = Array.from({ length: KILLS }, async () => {
    using place = scratch();
    using child = logChild(place.dir);
    await until('it listens', () => child.socket !== undefined);
    await child.say('session opened for local user acme from [192.0.2.7]');
    let sent = 1;
    const each = async (): Promise<void> => {
      while (sent < MESSAGES) await child.say(`remove name "${(sent += 1)}"`);
    };
    await Promise.all(Array.from({ length: 16 }, each));
    child.kill('SIGKILL');
    await child.ended;
    return readFileSync(join(place.dir, 'journal', 'acme'), 'utf8').split('\n').length - 1;
  });
  assert.deepEqual(await Promise.all(kills), Array<number>(KILLS).fill(MESSAGES));
});
