/**
 * A rotation of host keys that is killed after each of its steps: the next `berth prepare` finds whole keys, the old or the
 * new of each type, and the same step can be repeated as if nothing had happened.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createLog } from '../../src/foundation/base/log.ts';
import {
  beginRotation,
  cancelRotation,
  finishRotation,
  hostKeyFiles,
} from '../../src/machine/sftp/host-key-rotation.ts';
import { ensureHostKeys } from '../../src/machine/sftp/host-keys.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { publicHostKeys } from '../../src/machine/sftp/public-host-keys.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const CHILD = fileURLToPath(new URL('./rotation-child.ts', import.meta.url));
/** More than there are. */
const MOST_STEPS = 40;
/** How many processes run side by side. */
const TOGETHER = 4;

interface Presented {
  readonly inUse: readonly string[];
  readonly next: readonly string[];
}

/** What sshd presents after `berth prepare`. Every private key that it is given fits the public file beside it. */
async function prepared({ config }: Scratch): Promise<Presented> {
  await prepareSshd(config, createLog('silent'));
  const { hostKeys, sshd } = pathsOf(config);
  const configured = readFileSync(join(sshd, 'sshd_config'), 'utf8').matchAll(/^HostKey (.+)$/gm);
  const files = [...configured].map(([, file = '']) => file);
  assert.deepEqual(files, hostKeyFiles(hostKeys));
  for (const file of files) {
    const { stdout } = await promisify(execFile)('ssh-keygen', ['-y', '-f', file]);
    const [type = '', base64 = ''] = stdout.split(' ');
    assert.ok(
      readFileSync(`${file}.pub`, 'utf8').startsWith(`${type} ${base64.trim()}`),
      `${file} and its public file`,
    );
  }
  const { inUse, next } = await publicHostKeys(hostKeys, { host: 'h', port: 22 });
  assert.equal(files.length, inUse.length + next.length);
  return { inUse: inUse.map((key) => key.fingerprint), next: next.map((key) => key.fingerprint) };
}

/** Lets the operation die after each of its steps, each time on a copy of those keys, and looks at what is left. */
async function eachDeath(
  operation: string,
  from: Scratch,
  look: (place: Scratch, after: string) => Promise<void>,
): Promise<number> {
  let deaths = 0;
  const die = async (step: number): Promise<boolean> => {
    using place = scratch({ BERTH_SFTP_PORT: '2299' });
    cpSync(pathsOf(from.config).hostKeys, pathsOf(place.config).hostKeys, {
      recursive: true,
      preserveTimestamps: true,
    });
    const child = spawn(process.execPath, [CHILD, operation, String(step)], {
      env: { ...nodeEnvironment, ...place.environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [last, [, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    if (last === 'finished') return false;
    assert.equal(signal, 'SIGKILL', `step ${step}: ${last}`);
    await look(place, `${operation}, after step ${step}, ${last}`);
    deaths += 1;
    return true;
  };
  for (let step = 1; step < MOST_STEPS; step += TOGETHER) {
    const steps = Array.from({ length: TOGETHER }, (_, index) => die(step + index));
    if ((await Promise.all(steps)).includes(false)) return deaths;
  }
  throw new Error(`${operation} has more than ${MOST_STEPS} steps`);
}

test('beginning, finishing and taking back a rotation, killed after any step', async () => {
  using source = scratch({ BERTH_SFTP_PORT: '2299' });
  const folder = pathsOf(source.config).hostKeys;
  await ensureHostKeys(folder);
  const old = await prepared(source);

  const begun = await eachDeath('begin', source, async (place, after) => {
    const found = await prepared(place);
    assert.deepEqual(found.inUse, old.inUse, after);
    await beginRotation(pathsOf(place.config).hostKeys, ['ed25519', 'ecdsa']);
    const again = await prepared(place);
    assert.deepEqual([again.inUse, again.next.length], [old.inUse, 2], after);
    assert.deepEqual(again.next.slice(0, found.next.length), found.next, `${after}: what was offered stays`);
  });
  assert.ok(begun >= 4, `only ${begun} steps`);

  await beginRotation(folder, ['ed25519', 'ecdsa']);
  const both = await prepared(source);
  const fresh = { inUse: [...both.next, ...old.inUse.slice(2)], next: [] };
  const finished = await eachDeath('finish', source, async (place, after) => {
    const { inUse, next } = await prepared(place);
    // Each type is the old with its next, or the new alone.
    for (const index of [0, 1]) {
      const [before = '', then = ''] = [both.inUse[index], both.next[index]];
      const isNew = inUse[index] === then && !next.includes(then);
      assert.ok(isNew || (inUse[index] === before && next.includes(then)), after);
    }
    assert.equal(inUse[2], old.inUse[2], after);
    await finishRotation(pathsOf(place.config).hostKeys);
    assert.deepEqual(await prepared(place), fresh, after);
  });
  assert.ok(finished >= 4, `only ${finished} steps`);

  const cancelled = await eachDeath('cancel', source, async (place, after) => {
    assert.deepEqual((await prepared(place)).inUse, old.inUse, after);
    await cancelRotation(pathsOf(place.config).hostKeys);
    assert.deepEqual(await prepared(place), old, after);
  });
  assert.ok(cancelled >= 4, `only ${cancelled} steps`);
});

test('a public file that somebody removed promotes no key that clients do not know', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  const folder = pathsOf(place.config).hostKeys;
  await ensureHostKeys(folder);
  const old = await prepared(place);
  await beginRotation(folder, ['ed25519']);
  rmSync(join(folder, 'ssh_host_next_ed25519_key.pub'));
  assert.deepEqual(await prepared(place), old);
  assert.ok(!existsSync(join(folder, 'ssh_host_next_ed25519_key')));
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.includes('next')),
    [],
  );
});
