/** What `berth prepare` checks and writes. */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '../../../src/foundation/base/config.ts';
import { OperatorError } from '../../../src/foundation/base/errors.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import { requireUsablePaths } from '../../../src/foundation/base/files.ts';
import { preflight } from '../../../src/machine/sftp/preflight.ts';
import { prepareSshd } from '../../../src/machine/sftp/sshd.ts';
import { smallDisk } from '../../faults/small-disk.ts';
import { runCommand } from '../../support/command-line.ts';
import { scratch } from '../../support/scratch.ts';

test('host keys are made once and kept; everything else is written at each start', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  await prepareSshd(place.config, createLog('silent'));
  const { stateDir } = place.config;
  const key = () => readFileSync(join(stateDir, 'hostkeys/ssh_host_ed25519_key'), 'utf8');
  const config = join(stateDir, 'sshd/sshd_config');
  const before = key();
  writeFileSync(config, 'damaged');
  await prepareSshd(place.config, createLog('silent'));
  assert.equal(key(), before);
  const text = readFileSync(config, 'utf8');
  assert.match(text, /^Port 2299$/m);
  assert.doesNotMatch(text, /^[^#\n]*\{\{|^\?/m);
  assert.match(
    readFileSync(join(stateDir, 'sshd/admit'), 'utf8'),
    new RegExp(`limit_file=${join(stateDir, 'limits')}/`),
  );
});

test('host keys that are made again are reported, with what that means for clients', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  const lines: { level: number; host_keys: string[]; msg: string }[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as (typeof lines)[number]);
  const log = createLog('info', { write });
  await prepareSshd(place.config, log);
  writeFileSync(place.config.databaseFile, '');
  await prepareSshd(place.config, log);
  rmSync(join(place.config.stateDir, 'hostkeys/ssh_host_ecdsa_key'));
  await prepareSshd(place.config, log);
  assert.deepEqual(
    lines.map(({ level, host_keys }) => [level, host_keys]),
    [
      [30, ['ed25519', 'ecdsa', 'rsa']],
      [40, ['ecdsa']],
    ],
  );
  assert.match(lines[1]?.msg ?? '', /clients that know the old ones refuse to connect/);
});

test('lines that this sshd does not know are left out, and no other', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  await prepareSshd(place.config);
  const text = readFileSync(join(place.config.stateDir, 'sshd/sshd_config'), 'utf8');
  const { stderr } = spawnSync('ssh', ['-V'], { encoding: 'utf8' });
  const [, major = '', minor = ''] = /^OpenSSH_(\d+)\.(\d+)/.exec(stderr) ?? [];
  const version = Number(major) + Number(minor) / 100;
  assert.equal(/^PerSourcePenalties authfail:/m.test(text), version >= 9.08);
  assert.equal(/^PerSourcePenalties invaliduser:1s$/m.test(text), version >= 10.03);
  assert.match(text, /^PerSourceNetBlockSize 32:64$/m);
});

test('a jail folder whose parent others may write to is refused, and the parent named', () => {
  using place = scratch();
  const open = join(place.dir, 'open');
  mkdirSync(join(open, 'below'), { recursive: true });
  const config = { ...place.config, jailDir: join(open, 'below', 'jails') };
  preflight(config);
  chmodSync(open, 0o775);
  assert.throws(
    () => preflight(config),
    lineWith(`below ${open} (in BERTH_JAIL_DIR)`, 'written to by others', 'chmod go-w'),
  );
  chmodSync(open, 0o755);
  chownSync(open, 1000, 0);
  assert.throws(() => preflight(config), lineWith(open, 'does not belong to root', 'chown root'));
  chownSync(open, 0, 0);
  writeFileSync(config.jailDir, '');
  assert.throws(
    () => requireUsablePaths({ BERTH_JAIL_DIR: config.jailDir }),
    lineWith(config.jailDir, 'BERTH_JAIL_DIR'),
  );
  assert.throws(
    () => preflight({ ...place.config, stateDir: '/tmp/state' }),
    lineWith('below /tmp (in BERTH_STATE_DIR)'),
  );
  assert.throws(
    () => preflight({ ...place.config, stateDir: '/etc/berth' }),
    lineWith('BERTH_STATE_DIR may not be below /etc'),
  );
  assert.throws(
    () => preflight({ ...place.config, jailDir: `/srv/${'x'.repeat(90)}` }),
    lineWith('at most 85 characters'),
  );
});

test('a configuration that sshd refuses is reported in one line', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '0' });
  await assert.rejects(
    prepareSshd(place.config, createLog('silent')),
    lineWith('sshd refuses to start', 'Badly formatted port number'),
  );
});

test('folders below /run stay reachable for our sshd', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  const config = readConfig({ ...place.environment, BERTH_RUNTIME_DIR: '/run/berth-test-prepare/inner' });
  using cleanUp = new DisposableStack();
  cleanUp.defer(() => {
    rmSync('/run/berth-test-prepare', { recursive: true, force: true });
  });
  await prepareSshd(config, createLog('silent'));
  assert.equal(readFileSync(join(config.stateDir, 'sshd/run-links'), 'utf8'), 'berth-test-prepare\n');
  assert.ok(existsSync('/run/berth-test-prepare/inner/sessions'));
});

function lineWith(...parts: string[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof OperatorError);
    for (const part of parts) assert.ok(error.message.includes(part), `${error.message} (expected: ${part})`);
    assert.doesNotMatch(error.message, /\n/);
    return true;
  };
}

test('a folder that the unit sees read-only is named, with what opens it', async () => {
  using place = scratch();
  const data = join(place.dir, 'data');
  using _disk = smallDisk(data, 'size=1m,ro');
  const { status, stderr } = await runCommand(
    { ...place.environment, BERTH_SFTP_PORT: '2299', BERTH_JAIL_DIR: join(data, 'jails') },
    'prepare',
  );
  assert.equal(status, 1);
  assert.match(
    stderr,
    new RegExp(`^berth: ${data}/jails cannot be written: .*BindPaths=FOLDER .*ReadWritePaths=FOLDER [^\n]*\n$`),
  );
});
