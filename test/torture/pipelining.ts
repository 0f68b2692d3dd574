/**
 * `npm run torture -- pipelining`: three SFTP sessions that rename a file to and fro without waiting for answers, some
 * thousand times a second, each from a process of its own; how long requests to the API take meanwhile.
 *
 *   node test/torture/pipelining.ts [--sessions 3] [--seconds 20] [--most 250]
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { percentile } from '../support/percentile.ts';
import { rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { startSshd } from '../support/sshd.ts';
import { clientOf, startServe } from '../support/serve-process.ts';

/** Requests that a session has under way. */
const AT_ONCE = 1000;

const { values } = parseArgs({
  options: {
    sessions: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '20' },
    most: { type: 'string', default: '250' },
    flood: { type: 'string' },
  },
});

if (values.flood === undefined) await measure();
else await flood(JSON.parse(values.flood) as Login);

interface Login {
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly seconds: number;
}

/** Prints how many renames there were. */
async function flood({ seconds, ...login }: Login): Promise<void> {
  await using connection = await connect(login);
  const session = await rawSftp(connection);
  await session.put('a', 'x');
  const until = performance.now() + seconds * 1000;
  let done = 0;
  while (performance.now() < until) {
    const renames = Array.from({ length: AT_ONCE }, (_, i) =>
      i % 2 ? session.rename('b', 'a') : session.rename('a', 'b'),
    );
    await Promise.all(renames);
    done += AT_ONCE;
  }
  process.stdout.write(String(done));
}

async function measure(): Promise<void> {
  const [sessions, seconds, most] = [Number(values.sessions), Number(values.seconds), Number(values.most)];
  using place = scratch({ BERTH_LOG_LEVEL: 'error', BERTH_RATE_LIMIT: '1000000' });
  await using sshd = await startSshd(place);
  const { config, environment } = await fixedPorts(place, sshd);
  await using serve = await startServe(config, environment);
  using client = clientOf(config, await issueKey(config));
  const logins: Login[] = [];
  for (let i = 0; i < sessions; i += 1) {
    const made = await client.send('POST', '/directories', { json: { directory: { name: `flood ${i}` } } });
    const { data } = made.json as { data: Record<string, string> };
    const { sftp_username: username = '', sftp_password: password = '' } = data;
    logins.push({ port: sshd.port, username, password, seconds });
  }
  const over = new AbortController();
  const floods = logins.map(async (login) => {
    const args = [...process.execArgv, fileURLToPath(import.meta.url), '--flood', JSON.stringify(login)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.on('data', (text) => (said += String(text)));
    await once(child, 'close');
    return Number(said);
  });
  const flooding = Promise.all(floods).finally(() => over.abort());
  const times: number[] = [];
  while (!over.signal.aborted) {
    const sent = performance.now();
    const { status } = await client.send('GET', '/directories');
    times.push(performance.now() - sent);
    assert.equal(status, 200);
    await wait(10);
  }
  const renames = (await flooding).reduce((sum, each) => sum + each, 0);
  assert.ok(!serve.hasEnded());
  const ms = (part: number): number => Math.round(percentile(times, part) * 10) / 10;
  const figures = {
    sessions,
    renames_a_second: Math.round(renames / seconds),
    requests: times.length,
    p50_ms: ms(0.5),
    p99_ms: ms(0.99),
    max_ms: ms(1),
    node: process.version,
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  assert.ok(figures.p99_ms < most, `the API's p99 is ${figures.p99_ms} ms`);
}
