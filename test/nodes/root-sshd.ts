/** A sshd by which root gets to a node: one on this machine that gives its logins that node's environment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { freePort } from '../support/free-port.ts';
import { keyPair } from '../support/sftp-user.ts';
import { shellOf } from './moving.ts';
import type { TestNode } from './nodes-place.ts';

export interface RootLogin extends AsyncDisposable {
  /** For `--ssh`. */
  readonly command: string;
}

export async function rootSshd(node: TestNode): Promise<RootLogin> {
  const folder = mkdtempSync('/srv/berth-test/sshd-');
  const port = await freePort();
  const [host, own] = [keyPair(folder, 'host'), keyPair(folder, 'own')];
  writeFileSync(join(folder, 'authorized'), `${own.publicKey}\n`);
  const environment = Object.entries(shellOf(node, folder)).map(([name, value]) => `"${name}=${value}"`);
  writeFileSync(
    join(folder, 'config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      'PidFile none',
      `HostKey ${host.file}`,
      `AuthorizedKeysFile ${join(folder, 'authorized')}`,
      'PasswordAuthentication no',
      'PermitRootLogin yes',
      'StrictModes no',
      `SetEnv ${environment.join(' ')}`,
      '',
    ].join('\n'),
  );
  mkdirSync('/run/sshd', { recursive: true });
  const sshd = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', join(folder, 'config')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines = createInterface(sshd.stderr);
  for await (const line of lines) if (line.startsWith('Server listening')) break;
  sshd.stderr.resume();
  const options = [
    '-F/dev/null',
    '-oStrictHostKeyChecking=no',
    '-oUserKnownHostsFile=/dev/null',
    '-oIdentitiesOnly=yes',
  ];
  return {
    command: ['ssh', ...options, '-q', '-i', own.file, '-p', port, 'root@127.0.0.1'].join(' '),
    async [Symbol.asyncDispose]() {
      sshd.kill();
      await once(sshd, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
