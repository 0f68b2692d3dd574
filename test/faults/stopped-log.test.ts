/** A process that is stopped for longer than a connection to the transfer log may be silent: no message is lost. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

const CHILD = fileURLToPath(new URL('stopped-log-child.ts', import.meta.url));

const STOPS = 4;
/** Longer than a silent connection is kept. */
const STOP_MS = 1300;

test('messages that arrive around a stop of some seconds are all heard', async () => {
  using place = scratch();
  const child = spawn(process.execPath, [...process.execArgv, CHILD, place.dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const heard: string[] = [];
  createInterface(child.stdout).on('line', (line) => heard.push(line));
  try {
    await until('it listens', () => heard.length === 1);
    const [socket = ''] = heard.splice(0);
    let sent = 0;
    const over = new AbortController();
    await say(socket, 'session opened for local user acme from [192.0.2.7]');
    sent += 1;
    const flood = async (): Promise<void> => {
      while (!over.signal.aborted) await say(socket, `remove name "${(sent += 1)}"`);
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
    await until('all is heard', () => heard.length >= sent).catch(() => undefined);
    assert.equal(new Set(heard).size, sent);
  } finally {
    child.kill('SIGKILL');
  }
});

/** As syslog(3) does: a connection for each message. */
function say(path: string, text: string): Promise<void> {
  const connection = connect(path);
  return new Promise((resolve, reject) => {
    connection.once('error', reject).once('close', () => resolve());
    connection.once('connect', () => connection.end(`<135>Nov 22 06:00:00 internal-sftp[1]: ${text}\0`));
  });
}
