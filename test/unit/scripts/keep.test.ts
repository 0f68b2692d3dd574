/**
 * The supervisor that starts sshd and serve, and restarts them when they end, in scripts/start and in the container.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const KEEP = fileURLToPath(new URL('../../../scripts/lib/keep', import.meta.url));

test('a command that ends is started again; SIGTERM ends it for good', async () => {
  using place = scratch();
  const pidFile = join(place.dir, 'pid');
  const keeper = spawn(KEEP, ['sleeper', pidFile, 'sleep', '600'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  keeper.stderr.on('data', (text) => (said += String(text)));
  const pid = (): number => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0);

  await until('it runs', () => pid() > 0 && isAlive(pid()));
  const first = pid();
  process.kill(first, 'SIGKILL');
  await until('it runs again', () => pid() !== first && isAlive(pid()) && said !== '');
  assert.match(said, /^berth: sleeper ended \(status 137\); starting it again in 0 s\n$/);

  const second = pid();
  keeper.kill('SIGTERM');
  assert.deepEqual(await once(keeper, 'exit'), [0, null]);
  assert.equal(isAlive(second), false);
});

test('the command dies with its keeper, even one that is killed', async () => {
  using place = scratch();
  const pidFile = join(place.dir, 'pid');
  const keeper = spawn(KEEP, ['sleeper', pidFile, 'sleep', '600'], { stdio: 'ignore' });
  const pid = (): number => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0);
  await until('it runs', () => pid() > 0 && readFileSync(`/proc/${pid()}/comm`, 'utf8') === 'sleep\n');
  keeper.kill('SIGKILL');
  await until('it has ended', () => !isAlive(pid()));
});

test('serve is started once sshd listens, so that a 201 never comes before', async () => {
  using place = scratch();
  const port = await freePort();
  // In the place of the two, by the names under which they are kept: an sshd that takes its time.
  const script = `set -euo pipefail
    for part in say settings ports supervise; do . "$0/scripts/lib/$part.sh"; done
    project=$0 node=$1
    raise_backlog() { :; }
    keep() {
      if [[ $1 == serve ]]; then echo "\${BERTH_SFTP_PORT}:$(listening_inode "$BERTH_SFTP_PORT")"; return; fi
      "$node" -e 'setTimeout(() => net.createServer().listen(process.env.BERTH_SFTP_PORT), 700)' >&2 & keepers+=($!)
    }
    supervise`;
  const environment = { PATH: process.env['PATH'], ...place.environment, BERTH_SFTP_PORT: String(port) };
  const supervisor = spawn('bash', ['-c', script, PROJECT, process.execPath], {
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  supervisor.stdout.on('data', (text) => (said += String(text)));
  await once(supervisor, 'exit');
  assert.match(said, new RegExp(`^${port}:\\d+$`, 'm'));
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
