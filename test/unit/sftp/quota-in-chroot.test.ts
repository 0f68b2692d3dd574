/** In a chroot the kernel names no file system for `/`: berth works there, without quotas. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { scratch } from '../../support/scratch.ts';

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
