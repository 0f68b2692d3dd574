/** What `berth prepare` checks and writes. */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '../../src/config.ts';
import { OperatorError } from '../../src/errors.ts';
import { preflight } from '../../src/sftp/preflight.ts';
import { prepareSshd } from '../../src/sftp/sshd.ts';
import { scratch } from '../support/scratch.ts';

test('host keys are made once and kept; the rest is written anew', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  await prepareSshd(place.config);
  const { stateDir } = place.config;
  const key = () => readFileSync(join(stateDir, 'hostkeys/ssh_host_ed25519_key'), 'utf8');
  const config = join(stateDir, 'sshd/sshd_config');
  const before = key();
  writeFileSync(config, 'damaged');
  await prepareSshd(place.config);
  assert.equal(key(), before);
  const text = readFileSync(config, 'utf8');
  assert.match(text, /^Port 2299$/m);
  assert.doesNotMatch(text, /^[^#\n]*\{\{|^\?/m);
  assert.match(
    readFileSync(join(stateDir, 'sshd/admit'), 'utf8'),
    new RegExp(`limit_file=${join(stateDir, 'limits')}/`),
  );
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
  assert.throws(() => preflight(config), lineWith(config.jailDir, 'is not a folder'));
  assert.throws(
    () => preflight({ ...place.config, stateDir: '/tmp/state' }),
    lineWith('below /tmp (in BERTH_STATE_DIR)'),
  );
  assert.throws(
    () => preflight({ ...place.config, stateDir: '/etc/berth' }),
    lineWith('BERTH_STATE_DIR may not lie below /etc'),
  );
  assert.throws(
    () => preflight({ ...place.config, jailDir: `/srv/${'x'.repeat(90)}` }),
    lineWith('at most 85 characters'),
  );
});

test('what sshd refuses is said in one line', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '0' });
  await assert.rejects(prepareSshd(place.config), lineWith('sshd refuses to start', 'Badly formatted port number'));
});

test('folders below /run stay reachable for our sshd', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  const config = readConfig({ ...place.environment, BERTH_RUNTIME_DIR: '/run/berth-test-prepare/inner' });
  using cleanUp = new DisposableStack();
  cleanUp.defer(() => {
    rmSync('/run/berth-test-prepare', { recursive: true, force: true });
  });
  await prepareSshd(config);
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
