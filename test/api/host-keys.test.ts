/** GET /api/v1/host_keys, compared with what ssh-keygen says about the same files. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ensureHostKeys } from '../../src/machine/sftp/host-keys.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { publicHostKeys } from '../../src/machine/sftp/public-host-keys.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

interface Shown {
  readonly type: string;
  readonly fingerprint: string;
  readonly known_hosts: string;
  readonly sshfp: readonly string[];
}

const keygen = (...args: string[]): string => execFileSync('ssh-keygen', args, { encoding: 'utf8' });

test('200: each host key as ssh-keygen shows it, to every API key', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const folder = pathsOf(place.config).hostKeys;
  await ensureHostKeys(folder);
  const member = await api.key(api.tenant.accountId, 'member');
  const { status, json } = await member('GET', '/host_keys');
  assert.equal(status, 200);
  const { data } = json as { data: Shown[] };
  assert.deepEqual(
    data.map(({ type }) => type),
    ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'],
  );
  for (const [index, name] of ['ed25519', 'ecdsa', 'rsa'].entries()) {
    const file = join(folder, `ssh_host_${name}_key.pub`);
    const shown = data[index];
    assert.deepEqual(Object.keys(shown ?? {}), ['type', 'fingerprint', 'known_hosts', 'sshfp']);
    assert.equal(keygen('-lf', file).split(' ')[1], shown?.fingerprint);
    assert.equal(keygen('-r', 'sftp.example.com.', '-f', file), `${shown?.sshfp.join('\n')}\n`);
    // ssh itself finds it under that host and port.
    const known = join(place.dir, 'known_hosts');
    writeFileSync(known, `${shown?.known_hosts}\n`);
    assert.ok(keygen('-lF', '[sftp.example.com]:2222', '-f', known).includes(` ${shown?.fingerprint}\n`));
  }
});

test('the host as known_hosts has it: no port when it is 22, lower case; no SSHFP for an address', async () => {
  using place = scratch();
  const folder = pathsOf(place.config).hostKeys;
  await ensureHostKeys(folder);
  const first = async (host: string, port: number): Promise<Shown | undefined> =>
    (await publicHostKeys(folder, { host, port })).inUse[0];
  assert.match((await first('SFTP.example.com', 22))?.known_hosts ?? '', /^sftp\.example\.com ssh-ed25519 AAAA/);
  assert.match((await first('2001:db8::1', 2222))?.known_hosts ?? '', /^\[2001:db8::1\]:2222 ssh-ed25519 /);
  assert.deepEqual((await first('2001:db8::1', 2222))?.sshfp, []);
  assert.match((await first('box', 22))?.sshfp[0] ?? '', /^box IN SSHFP 4 1 [\da-f]{40}$/);
});

test('no private key is opened, and what is no key is passed over', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const folder = pathsOf(place.config).hostKeys;
  assert.deepEqual((await api.send('GET', '/host_keys')).json, { data: [] });
  await ensureHostKeys(folder);
  // Opening a private key would fail now.
  for (const name of readdirSync(folder).filter((file) => !file.endsWith('.pub'))) rmSync(join(folder, name));
  writeFileSync(join(folder, 'ssh_host_rsa_key.pub'), '');
  writeFileSync(join(folder, 'ssh_host_ecdsa_key.pub'), '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n');
  const { status, json } = await api.send('GET', '/host_keys');
  assert.deepEqual([status, (json as { data: Shown[] }).data.map(({ type }) => type)], [200, ['ssh-ed25519']]);
});
