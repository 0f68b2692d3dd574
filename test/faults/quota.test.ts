/**
 * Quotas on an ext4 of its own that is mounted with `usrquota`: the kernel enforces each directory's quota. Needs root.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkQuotas } from '../../src/operating/doctor/checks/machine.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

const MIB = 1024 * 1024;

/** Mounts a disk with quotas there; `missing` says why it cannot. */
function quotaDisk(folder: string, image: string): Disposable & { readonly missing?: string } {
  const without = (missing: string) => ({ missing, [Symbol.dispose]: () => undefined });
  if (spawnSync('setquota', ['--version']).error) return without('needs the package quota');
  mkdirSync(folder, { recursive: true });
  writeFileSync(image, '');
  truncateSync(image, 128 * MIB);
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-O', 'quota', '-E', 'quotatype=usrquota', image]);
  const { status, stderr } = spawnSync('mount', ['-o', 'loop,usrquota', image, folder], { encoding: 'utf8' });
  if (status !== 0) return without(`this kernel mounts no ext4 with quotas: ${stderr.trim()}`);
  return { [Symbol.dispose]: () => void execFileSync('umount', ['--lazy', folder]) };
}

function put(berth: TestBerth, { id }: TestDirectory, path: string, size: number) {
  return berth.send('PUT', `/directories/${id}/files/${path}`, { body: Buffer.alloc(size, 'x') });
}

const limit = (berth: TestBerth, { id }: TestDirectory, max_bytes: number | null) =>
  berth.send('PUT', `/directories/${id}/quota`, { json: { max_bytes } });

test('one huge upload ends at the quota, others go on; a restart, a lost limit and a deletion are followed', async (t) => {
  using place = scratch();
  using disk = quotaDisk(place.config.jailDir, join(place.dir, 'disk'));
  if (disk.missing !== undefined) return t.skip(disk.missing);
  await using berth = await startBerth(place);
  const [small, large] = [await berth.directory(), await berth.directory()];
  const { uid } = statSync(small.files);
  /** The hard limit of the kernel, in KiB. */
  const kernel = (): string | undefined => {
    const all = execFileSync('repquota', ['-u', '-n', '-O', 'csv', place.config.jailDir], { encoding: 'utf8' });
    return all
      .split('\n')
      .find((line) => line.startsWith(`#${uid},`))
      ?.split(',')[5];
  };
  const answer = await limit(berth, small, 10 * MIB);
  const quota = { max_bytes: 10 * MIB, used_bytes: 0 };
  assert.deepEqual([answer.status, answer.json], [200, { data: { ...quota, quota } }]);
  assert.equal(kernel(), '10240');
  const [finding] = await checkQuotas(berth.config, systemClock());
  assert.equal(finding?.verdict, 'ok');

  const file = join(place.dir, 'huge');
  writeFileSync(file, Buffer.alloc(40 * MIB, 'x'));
  await sftp(place.dir, small.login, [`put ${file}`]);
  // sshd accepts writes after one that failed, so the allocated blocks count.
  const left = 512 * statSync(join(small.files, 'huge')).blocks;
  assert.ok(left <= 10 * MIB && left > 9 * MIB, `${left} bytes are there`);
  await sftp(place.dir, large.login, [`put ${file}`]);
  await until('the other is recorded', async () => (await berth.uploads(large)).length === 1);
  assert.equal(statSync(join(large.files, 'huge')).size, 40 * MIB);
  assert.deepEqual(await berth.uploads(small), [], 'what was refused is no upload');
  assert.equal((await put(berth, small, 'more', MIB)).status, 507);
  assert.equal(existsSync(join(small.files, 'more')), false);

  await sftp(place.dir, small.login, ['rm huge']);
  await until('there is room', async () => (await put(berth, small, 'fits', MIB)).status < 300);

  // What an administrator changed meanwhile, or a new disk lacks, comes back with the next start.
  await berth.stop();
  execFileSync('setquota', ['-u', String(uid), '0', '0', '0', '0', place.config.jailDir]);
  await berth.start();
  await berth.service().covered;
  assert.equal(kernel(), '10240');

  assert.equal((await limit(berth, small, null)).status, 200);
  assert.equal(kernel(), '0');
  assert.equal((await put(berth, small, 'more', 20 * MIB)).status, 201);
  await limit(berth, small, 30 * MIB);
  await berth.send('DELETE', `/directories/${small.id}`);
  await until('the kernel has forgotten it', () => (kernel() ?? '0') === '0');
});

test('a disk without quotas: 409 says how it gets them, and doctor too', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const { status, json } = await limit(berth, directory, 10 * MIB);
  assert.equal(status, 409);
  assert.match((json as { error: string }).error, /^No quota can be set: .*(usrquota|install Debian's package quota)/);
  const [finding] = await checkQuotas(berth.config, systemClock());
  assert.deepEqual([finding?.verdict, finding?.text.startsWith('no directory has a quota')], ['ok', true]);
});
