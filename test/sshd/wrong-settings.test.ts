/** A mistake in the settings is named before a restart, and a restart of sshd survives it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { runCommand } from '../support/command-line.ts';
import { ROOT, scratch } from '../support/scratch.ts';
import { copyHostKeys } from '../support/sshd.ts';

test('prepare needs only the settings of sshd, and keeps those of its last start', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2299' });
  await copyHostKeys(ROOT, pathsOf(place.config).hostKeys);
  const prepare = (wrong: Record<string, string> = {}) => runCommand({ ...place.environment, ...wrong }, 'prepare');
  const portOf = (): string | undefined =>
    /^Port (\d+)$/m.exec(readFileSync(join(place.config.stateDir, 'sshd', 'sshd_config'), 'utf8'))?.[1];

  const first = await prepare({ BERTH_SFTP_PORT: 'ssh' });
  assert.equal(first.status, 1);
  assert.match(first.stderr, /^berth: configuration: BERTH_SFTP_PORT must be a port number\n$/);

  const ofApi = await prepare({ BERTH_RATE_LIMIT: 'many' });
  assert.equal(ofApi.status, 0, ofApi.stderr);
  assert.match(ofApi.stderr, /BERTH_RATE_LIMIT must be a whole number above 0: berth serve will not start/);

  assert.equal((await prepare()).status, 0);
  const ofSshd = await prepare({ BERTH_SFTP_PORT: 'ssh', BERTH_RATE_LIMIT: 'many' });
  assert.equal(ofSshd.status, 0, ofSshd.stderr);
  assert.match(ofSshd.stderr, /BERTH_SFTP_PORT must be a port number: sshd keeps the settings of its last start/);
  assert.equal(portOf(), '2299');
});

test('config check names every mistake and changes nothing', async () => {
  using place = scratch();
  const check = (more: Record<string, string> = {}) => runCommand({ ...place.environment, ...more }, 'config', 'check');
  const { status, stdout } = await check();
  assert.deepEqual([status, stdout], [0, 'The settings are valid\n']);
  const wrong = await check({ BERTH_RATE_LIMIT: 'many', BERTH_SFTP_HOST: 'foo bar', BERTH_RATE_LIMT: '1' });
  assert.equal(wrong.status, 1);
  const [rate, host, unknown, ...others] = wrong.stdout.split('\n').filter(Boolean).toSorted();
  assert.match(
    [rate, host, unknown].join('\n'),
    /^BERTH_RATE_LIMIT must[^\n]*\nBERTH_RATE_LIMT is not[^\n]*\nBERTH_SFTP_HOST must/,
  );
  assert.deepEqual(others, []);
});
