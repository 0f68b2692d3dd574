/** Quotas where berth must not set them itself: it asks a socket, whose server checks every request. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { kernelQuotas } from '../../../src/machine/sftp/quota.ts';
import { FIRST_UID } from '../../../src/rules/directories/create.ts';
import { assertWithin } from '../../support/long.ts';
import { scratch } from '../../support/scratch.ts';

const QUOTA = fileURLToPath(new URL('../../../scripts/lib/quota', import.meta.url));
const SOURCE = new URL('../../../src/machine/sftp/quota.ts', import.meta.url).href;

function ask(input: string, jails: string): string {
  return spawnSync('sh', [QUOTA], { env: { BERTH_JAIL_DIR: jails }, input, encoding: 'utf8' }).stdout;
}

test('a request names a directory by its UID and a number of KiB, or nothing is run', (t) => {
  if (spawnSync('setquota', ['--version']).error) return t.skip('needs the package quota');
  using place = scratch();
  const jails = place.dir;
  const last = FIRST_UID - 1;
  const nobody = ['0', '33', `${last}`, '', 'root', '-1', '+1879048192', `${FIRST_UID}x`, '$(id)', `0x${FIRST_UID}`];
  // Cut down to 32 bits, or read as octal, these are 33.
  const disguised = [
    `${2 ** 32 + 33}`,
    '040000000041',
    `0${FIRST_UID}`,
    '9'.repeat(13),
    `${2 ** 32 - 1}`,
    `${2 ** 32 - 2}`,
  ];
  for (const uid of [...nobody, ...disguised, '9'.repeat(40), '*']) {
    assert.equal(ask(`set ${uid} 100\n`, jails), 'failed\nnot the UID of a directory\n', uid);
  }
  for (const kib of ['', '-1', '1e3', '010', '0x10', '9'.repeat(40), '100 /', '100; id', '`id`', '--help']) {
    assert.equal(ask(`set ${FIRST_UID} ${kib}\n`, jails), 'failed\nno number of KiB\n', kib);
  }
  for (const uid of [FIRST_UID, 2 ** 32 - 3]) assert.match(ask(`set ${uid} 0\n`, jails), /^failed\nsetquota: /);
  for (const words of ['', ' ', 'setquota', 'state; id', '-a', 'set\n', '../quota']) {
    assert.match(ask(`${words}\n`, jails), /^failed\n(unknown request|not the UID of a directory)\n$/, words);
  }
  assert.equal(ask('', jails), 'failed\nno request\n');
  assert.match(ask('state\n', join(jails, 'missing')), /^failed\nstat: .*No such file/);
  // The line after the first is not read.
  assert.match(ask(`state\nset ${FIRST_UID} 1\n`, jails), /^done\nquotaon: .*\n$/);
});

const POWERLESS = ['--inh-caps=-sys_admin', '--bounding-set=-sys_admin'];

/** What a berth without CAP_SYS_ADMIN finds. */
async function obstacle(jails: string, socket: string): Promise<string> {
  const script = `
import { kernelQuotas } from '${SOURCE}';
console.log(kernelQuotas('${jails}', '${socket}').obstacle());`;
  const args = [...POWERLESS, process.execPath, '--input-type=module', '--eval', script];
  const child = spawn('setpriv', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return (await text(child.stdout)).trim();
}

test('a berth without CAP_SYS_ADMIN asks the quota socket, if there is one, and reports the result', async () => {
  using place = scratch();
  const socket = join(place.dir, 'quota');
  const without = await obstacle(place.dir, socket);
  assert.match(without, /enforces no user quotas|lacks the programs|without CAP_SYS_ADMIN/);

  const asked: string[] = [];
  let answer = '';
  const reply = async (client: Socket): Promise<void> => {
    asked.push(await text(client));
    client.end(answer);
  };
  await using server = createServer({ allowHalfOpen: true }, (client) => void reply(client));
  await once(server.listen(socket), 'listening');
  answer = 'missing\n';
  assert.match(await obstacle(place.dir, socket), /install Debian's package quota$/);
  answer = 'done\nuser quota on / (/dev/sda1) is off\n';
  assert.match(await obstacle(place.dir, socket), /enforces no user quotas/);
  answer = 'failed\nquotaon: out of order\n';
  assert.equal(await obstacle(place.dir, socket), 'quotas cannot be set: quotaon: out of order');
  answer = ''; // so it is when systemd has started enough of them, or cannot start any
  assert.equal(await obstacle(place.dir, socket), `quotas cannot be set: ask: ${socket}: no answer`);
  assert.deepEqual(asked, Array(4).fill('state\n'));
});

/** A socket where nobody listens any more. */
async function abandoned(socket: string): Promise<void> {
  const child = spawn(process.execPath, [
    '--eval',
    `require('node:net').createServer().listen('${socket}', () => process.kill(process.pid, 'SIGKILL'))`,
  ]);
  await once(child, 'close');
}

test('a socket where nobody listens any more hinders quotas, and nothing else', async () => {
  using place = scratch();
  const socket = join(place.dir, 'quota');
  await abandoned(socket);
  assert.equal(await obstacle(place.dir, socket), `quotas cannot be set: ask: ${socket}: Connection refused`);
});

test('berth doctor, which may set quotas, finds what hinders a berth serve that may not', async () => {
  using place = scratch();
  const socket = join(place.dir, 'quota');
  await abandoned(socket);
  const serve = spawn('setpriv', [...POWERLESS, 'sh', '-c', 'echo; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(serve.stdout, 'data');
  assert.match(kernelQuotas(place.dir, socket, serve.pid).obstacle() ?? '', /Connection refused$/);
  assert.doesNotMatch(kernelQuotas(place.dir, socket).obstacle() ?? '', /Connection refused/);
  serve.kill();
  await once(serve, 'close');
});

test('a socket that accepts and never answers holds up the main thread for seconds, not for good', async () => {
  using place = scratch();
  const socket = join(place.dir, 'quota');
  let held: Socket | undefined;
  await using server = createServer({ allowHalfOpen: true }, (client) => void (held = client));
  await once(server.listen(socket), 'listening');
  const began = performance.now();
  assert.match(await obstacle(place.dir, socket), /^quotas cannot be set: .*ETIMEDOUT$/);
  assertWithin(15_000, performance.now() - began, 'ms');
  held?.destroy();
});

// In a chroot the kernel names no file system for `/`: berth works there, without quotas.

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

/** With this machine's programs, the project and a /proc, in mounts that end with it. */
const CHROOT = `
set -e
for folder in usr bin lib lib64 "$PROJECT" "$(dirname "$NODE")"; do
  [ -e "/\${folder#/}" ] && [ ! -e "$ROOT/$folder" ] || continue
  mkdir -p "$ROOT/$folder"
  mount --rbind "/\${folder#/}" "$ROOT/$folder"
done
mkdir "$ROOT/proc"
mount -t proc proc "$ROOT/proc"
exec chroot "$ROOT" "$NODE" --input-type=module --eval "$SCRIPT"`;

const SCRIPT = `
import { kernelQuotas } from '${PROJECT}/src/machine/sftp/quota.ts';
const quotas = kernelQuotas(process.env.JAILS);
quotas.apply(7, 1024);
console.log(quotas.isApplied(7, 1024), quotas.obstacle());`;

function isMount(path: string): boolean {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return mounts.some((line) => line.split(' ')[4] === path);
}

test('where no file system can be seen for the jails, no quota can be set, and nothing fails', () => {
  using place = scratch();
  const root = `${place.dir}/root`;
  mkdirSync(`${root}/jails`, { recursive: true });
  const env = { PATH: process.env['PATH'], PROJECT, ROOT: root, NODE: process.execPath, SCRIPT };
  // The tests may run in such a place themselves, where unshare(1) cannot make mounts private.
  const { stdout, stderr } = isMount('/')
    ? spawnSync('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', CHROOT], {
        env: { ...env, JAILS: '/jails' },
        encoding: 'utf8',
      })
    : spawnSync(process.execPath, ['--input-type=module', '--eval', SCRIPT], {
        env: { ...env, JAILS: `${root}/jails` },
        encoding: 'utf8',
      });
  assert.equal(stderr, '');
  assert.match(stdout, /^true berth cannot see the disk of the jails/);
});
