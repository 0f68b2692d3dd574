/**
 * `berth serve` stopped by SIGSTOP with no room for a further log message: the watchdog of `scripts/start` ends it, sshd's
 * sessions continue, and every upload is announced.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { issueKey, webhookOf } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const FILES = 600;

/** As `scripts/start` does, but for sshd, and with a watchdog that looks more often. */
const SUPERVISOR = `set -euo pipefail
project=$1 node=$2
for part in say settings supervise; do . "$project/scripts/lib/$part.sh"; done
mkdir -p "$BERTH_RUNTIME_DIR"
keeper_by=("$project/scripts/lib/log-sockets")
keep serve "$node" "$project/src/main.ts" serve
trap 'end_all; exit 0' INT TERM
trap end_all EXIT
wait_until_healthy 60
echo healthy
watch 0.5 6`;

/** In Python, which connects 65,536 times within the watchdog's patience. */
const FILL = `import socket, sys
count = 0
while True:
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect(sys.argv[1])
    except BlockingIOError:
        break
    connection.close()
    count += 1
print(count)`;

/** Connects until the kernel takes no more, as sshd does for each message. Returns how many it took. */
function fill(socket: string): number {
  return Number(execFileSync('python3', ['-c', FILL, socket], { encoding: 'utf8' }));
}

test('sftp of 600 files ends although serve is stopped and its backlog is full, and each is announced', async (t) => {
  using place = scratch({ BERTH_LOG_LEVEL: 'silent' });
  await using hook = await receiver();
  await using sshd = await startSshd(place);
  const { config, environment } = await fixedPorts(place, sshd);
  const key = await issueKey(config);
  const supervisor = spawn('bash', ['-c', SUPERVISOR, 'supervisor', PROJECT, process.execPath], {
    env: { ...nodeEnvironment, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(supervisor, 'exit');
  await using _supervisor = {
    async [Symbol.asyncDispose]() {
      supervisor.kill('SIGTERM');
      await ended;
    },
  };
  let said = '';
  supervisor.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  await once(supervisor.stdout, 'data');

  using client = clientOf(config, key);
  const made = await client.send('POST', '/directories', { json: { directory: { name: 'stuck' } } });
  const { data } = made.json as { data: Record<string, string> };
  const { id = '', sftp_username: username = '', sftp_password: password = '' } = data;
  await client.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: hook.url } } });
  const folder = join(place.dir, 'batch');
  mkdirSync(folder);
  for (let index = 0; index < FILES; index += 1) writeFileSync(join(folder, `file-${index}`), 'data');

  const pid = Number(readFileSync(join(config.runtimeDir, 'serve.pid'), 'utf8'));
  process.kill(pid, 'SIGSTOP');
  const fits = fill(join(config.jailDir, username, 'dev', 'log'));
  const room = Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  // The backlog, one more (listen(2)), and what was taken in just before the signal was felt.
  const expected = Math.min(room, 65_535) + 1;
  assert.ok(fits >= expected && fits <= expected + 2, `${fits} for a backlog of ${room}`);
  t.diagnostic(`${fits} messages fit`);
  const { code, output } = await sftp(place.dir, { port: sshd.port, username, password }, ['put batch/* .']);
  assert.equal(code, 0, output.slice(-500));
  // Not by `ls`: ssh makes the pipe that it shares with sftp non-blocking, and long output is lost in a full one.
  assert.equal(readdirSync(join(config.jailDir, username, 'files')).length, FILES);
  assert.match(said, /serve does not answer: killing it/);
  await until('each is announced', () => new Set(hook.requests.map((r) => webhookOf(r).filename)).size === FILES);
  assert.ok(hook.requests.length < FILES * 1.01);
});
