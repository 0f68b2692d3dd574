/** The disk of the jails is not mounted: before a start, and while berth runs. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { checkFolders } from '../../src/operating/doctor/checks/machine.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { runDoctor } from '../../src/operating/doctor/run.ts';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepare } from '../../src/service/prepare.ts';
import { claimJailDisk, isJailDiskThere } from '../../src/machine/sftp/jail-disk.ts';
import { pathsOf, prepareFolders } from '../../src/machine/sftp/paths.ts';
import { runCommand } from '../support/command-line.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

const LOG_SOCKETS = fileURLToPath(new URL('../../scripts/lib/log-sockets', import.meta.url));

/** Says how many of the transfer log's sockets it has, and which file the first one is. */
const SAY = `set -- $BERTH_LOG_SOCKETS; echo $# $(stat -c %i "$BERTH_JAIL_DIR/.berth/kept-1.sock" 2>/dev/null)`;

const silent = createLog('silent');

/** A disk with a folder of its own, mounted where the jails are. */
function diskOf(place: Scratch) {
  const { jailDir } = place.config;
  const disk = join(place.dir, 'disk');
  mkdirSync(disk, { mode: 0o755 });
  mkdirSync(jailDir, { mode: 0o755 });
  let isMounted = false;
  const mount = (): void => {
    execFileSync('mount', ['--bind', disk, jailDir]);
    isMounted = true;
  };
  const unmount = (): void => {
    execFileSync('umount', ['--lazy', jailDir]);
    isMounted = false;
  };
  return { disk, mount, unmount, [Symbol.dispose]: () => void (isMounted && unmount()) };
}

const refuses = { name: 'OperatorError', message: /is not the disk that the jails .* are on.*--accept-disk/ };

async function withFile(berth: TestBerth) {
  const directory = await berth.directory();
  await using client = await berth.connect(directory);
  await (await sftpSession(client)).put('kept.csv', 'kept');
  await until('the upload is listed', async () => (await berth.uploads(directory)).length === 1);
  return directory;
}

test('without the disk neither prepare nor serve starts, and nothing is made on the mount point', async () => {
  using place = scratch();
  using disk = diskOf(place);
  disk.mount();
  await using berth = await startBerth(place);
  const directory = await withFile(berth);
  await berth.stop();
  disk.unmount();
  await assert.rejects(prepare(berth.config, silent), refuses);
  await assert.rejects(berth.start(), refuses);
  assert.deepEqual(readdirSync(place.config.jailDir), []);
  disk.mount();
  await berth.start();
  await wait(5000);
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(berth.receiver.requests.length, 1, 'announced again');
});

test('berth distinguishes a mount point that it once used from the disk that was mounted over it', async () => {
  using place = scratch();
  using disk = diskOf(place);
  await using berth = await startBerth(place); // the package started it before the disk was mounted
  await berth.stop();
  disk.mount();
  await prepare(berth.config, silent); // no directory yet: an empty disk is as good as any
  await berth.start();
  await berth.directory();
  await berth.stop();
  disk.unmount();
  await assert.rejects(berth.start(), refuses);
});

test('a copy of the jails on another disk is accepted silently, and the old disk is refused from then on', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  await withFile(berth);
  await berth.stop();
  const { jailDir } = berth.config;
  const elsewhere = join(place.dir, 'elsewhere');
  for (const without of [false, true]) {
    mkdirSync(elsewhere);
    execFileSync('cp', ['-a', `${jailDir}/.`, elsewhere]);
    if (without) rmSync(join(elsewhere, '.berth'), { recursive: true });
    execFileSync('mount', ['--bind', elsewhere, jailDir]);
    await prepare(berth.config, silent);
    assert.ok(isJailDiskThere(pathsOf(berth.config)));
    execFileSync('umount', ['--lazy', jailDir]);
    await assert.rejects(prepare(berth.config, silent), refuses, 'the jails below the mount point');
    await prepare(berth.config, silent, { accept: true });
    rmSync(elsewhere, { recursive: true });
  }
});

test('another disk is accepted only on purpose, after berth has said how many files it lacks', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await withFile(berth);
  await berth.stop();
  const { jailDir } = berth.config;
  const elsewhere = join(place.dir, 'elsewhere');
  execFileSync('cp', ['-a', jailDir, elsewhere]);
  rmSync(join(elsewhere, '.berth'), { recursive: true });
  const files = join(elsewhere, directory.username, 'files');
  execFileSync('cp', ['--preserve=ownership', join(files, 'kept.csv'), join(files, 'later.csv')]);
  execFileSync('mount', ['--bind', elsewhere, jailDir]);
  await prepare(berth.config, silent);
  await berth.start();
  await until('the file that only this disk has is announced', () => berth.receiver.requests.length === 2);
  await berth.stop();
  execFileSync('umount', ['--lazy', jailDir]); // back to the old disk

  const accept = (...more: string[]) =>
    runCommand({ ...place.environment, BERTH_SFTP_PORT: '2299' }, 'prepare', '--accept-disk', ...more);
  const said = 'Files that are not on this disk count as removed: 1 of 2\n';
  const asked = await accept();
  assert.deepEqual([asked.status, asked.stdout], [1, said], asked.stderr);
  assert.match(asked.stderr, /there is no terminal to ask on: add --yes/);
  await assert.rejects(berth.start(), refuses);
  assert.deepEqual([(await accept('--yes')).stdout, (await accept('--yes')).stdout], [said, '']);
  await berth.start();
  await until('the newer file counts as removed', async () => (await berth.uploads(directory)).length === 1);
  await wait(3000);
  assert.equal(berth.receiver.requests.length, 2, 'announced again');
});

test('an empty disk can be accepted on purpose, once', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await withFile(berth);
  await berth.stop();
  const { jailDir } = berth.config;
  cpSync(jailDir, `${jailDir}.away`, {
    recursive: true,
    filter: (path) => !path.endsWith('.sock') && !path.includes('/dev'),
  });
  rmSync(jailDir, { recursive: true });
  await assert.rejects(prepare(berth.config, silent), OperatorError);
  await prepare(berth.config, silent, { accept: true });
  await prepare(berth.config, silent);
  await berth.start();
  await until('the file counts as removed', async () => (await berth.uploads(directory)).length === 0);
});

test('a disk that goes while berth runs: no file counts as removed, no jail is made there, and all is well when it is back', async () => {
  using place = scratch();
  using disk = diskOf(place);
  disk.mount();
  await using berth = await startBerth(place);
  const directory = await withFile(berth);
  const names = async (): Promise<string[]> => (await berth.uploads(directory)).map(({ filename }) => filename).sort();
  await using client = await berth.connect(directory);
  const session = await sftpSession(client);
  const { jailDir } = berth.config;
  disk.unmount();
  await until('healthz says so', async () => (await health(berth)) === 503);
  const created = await berth.send('POST', '/directories', { json: { directory: { name: 'New' } } });
  assert.equal(created.status, 503);
  assert.match(created.text, /The disk with this directory's files is not available/);
  const [finding] = await checkFolders(berth.config, systemClock());
  assert.equal(finding?.verdict, 'fail');
  assert.match(finding.text, /not on the disk/);
  // sshd still has the disk, in a namespace of its own. If a file is not where the log says, berth scans the directory.
  await session.put('during.csv', 'during');
  await wait(8000);
  assert.ok((await names()).includes('kept.csv'), 'kept.csv counts as removed');
  assert.deepEqual(
    readdirSync(jailDir).filter((name) => name !== '.berth'),
    [],
  );
  disk.mount();
  await until('healthz', async () => (await health(berth)) === 200);
  await session.put('after.csv', 'after');
  await until('all are listed', async () => (await names()).join() === 'after.csv,during.csv,kept.csv');
  await until('all are announced', () => berth.receiver.requests.length === 3);
});

async function health(berth: TestBerth): Promise<number> {
  return (await berth.send('GET', '//healthz')).status;
}

test('sockets that outlive serve are made on the disk of the jails only, and made again where a copy of it is', async () => {
  using place = scratch();
  using disk = diskOf(place);
  const { jailDir, stateDir } = place.config;
  const env = { PATH: process.env['PATH'], BERTH_STATE_DIR: stateDir, BERTH_JAIL_DIR: jailDir };
  /** The same sockets for several commands, as the keeper has them. */
  const say = (...between: readonly string[]): string[] => {
    const script = [SAY, ...between.flatMap((command) => [command, SAY])]
      .map((command, index) => (index % 2 === 0 ? `"$0" sh -c '${command}'` : command))
      .join('\n');
    const output = execFileSync(LOG_SOCKETS, ['sh', '-euc', script, LOG_SOCKETS], { env, encoding: 'utf8' });
    return output.trimEnd().split('\n');
  };
  assert.deepEqual(say(), ['0'], 'the disk has not been accepted yet');
  assert.deepEqual(readdirSync(jailDir), []);
  disk.mount();
  const paths = pathsOf(place.config);
  prepareFolders(paths);
  await claimJailDisk(paths, 'the disk');
  const [first = '', again] = say(':');
  assert.match(first, /^64 \d+$/);
  assert.equal(again, first);
  disk.unmount();
  assert.deepEqual(say(), ['0']);
  assert.deepEqual(readdirSync(jailDir), []);
  disk.mount();
  const copy = `cp -a "${disk.disk}" "${disk.disk}.copy" && mount --bind "${disk.disk}.copy" "${jailDir}"`;
  const back = `umount --lazy "${jailDir}"`;
  const [mounted, away, returned, copied] = say(back, `mount --bind "${disk.disk}" "${jailDir}"`, copy);
  assert.match(mounted ?? '', /^64 /);
  assert.equal(away, '0');
  assert.equal(returned, mounted);
  assert.match(copied ?? '', /^64 /);
  assert.notEqual(copied, mounted);
  execFileSync('umount', ['--lazy', jailDir]);
});

test('doctor says one thing about a disk that is not mounted', async () => {
  using place = scratch();
  using disk = diskOf(place);
  disk.mount();
  await using berth = await startBerth(place);
  await berth.directory();
  await berth.stop();
  disk.unmount();
  const lines: string[] = [];
  const stop = new AbortController().signal;
  const print = (line: string): void => void lines.push(line);
  await runDoctor({ config: () => berth.config, environment: {}, clock: systemClock(), print, stop });
  const about = lines.filter((line) => !line.startsWith('ok') && !/^\w+ +(limits|clock) /.test(line));
  assert.equal(about.length, 1, about.join('\n'));
  assert.match(about[0] ?? '', /^fail +folders .* is not on the disk of the jails.* -> mount that disk/);
});
