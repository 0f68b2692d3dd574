/** Runs OpenSSH's own `sftp`, which logs in to our sshd as a customer would, and trusts only our host keys. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../foundation/base/config.ts';
import { pathsOf } from '../../machine/sftp/paths.ts';
import { command } from './processes.ts';

/** Our sshd in known_hosts. OpenSSH would look up an address with its port, unless that is 22. */
const ALIAS = 'berth';

export interface SftpClient extends AsyncDisposable {
  /** The public half of a key pair made for this client. */
  readonly publicKey: string;
  /** Uploads a small file: by password if one is given, otherwise by key. Returns the error, if there was one. */
  put(name: string, password?: string): Promise<string | undefined>;
}

export async function openSftpClient(config: Config, username: string): Promise<SftpClient> {
  const folder = mkdtempSync(join(config.stateDir, 'doctor-'));
  const { port } = config.sftp;
  const file = (name: string): string => join(folder, name);
  await command('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file('key')]);
  writeFileSync(file('askpass'), '#!/bin/sh\nprintf \'%s\\n\' "$SECRET"\n', { mode: 0o700 });
  writeFileSync(file('content'), 'from berth doctor\n');
  const { hostKeys } = pathsOf(config);
  const publicKeys = readdirSync(hostKeys).filter((name) => /^ssh_host_\w+_key\.pub$/.test(name));
  const known = publicKeys.map((name) => `${ALIAS} ${readFileSync(join(hostKeys, name), 'utf8')}`);
  writeFileSync(file('known_hosts'), known.join(''));
  const options = [
    'StrictHostKeyChecking=yes',
    `HostKeyAlias=${ALIAS}`,
    `UserKnownHostsFile=${file('known_hosts')}`,
    'GlobalKnownHostsFile=/dev/null',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `IdentityFile=${file('key')}`,
    'NumberOfPasswordPrompts=1',
    'ConnectTimeout=10',
    'LogLevel=ERROR',
  ];

  return {
    publicKey: readFileSync(file('key.pub'), 'utf8').trim(),
    async put(name, password) {
      const method = `PreferredAuthentications=${password === undefined ? 'publickey' : 'password'}`;
      const args = [...options, method].flatMap((option) => ['-o', option]);
      const { status, stdout, stderr } = await command(
        'sftp',
        ['-F', '/dev/null', ...args, '-P', `${port}`, `${username}@127.0.0.1`],
        {
          cwd: folder,
          // Commands come on standard input, since -b forbids the password prompt.
          input: `put content ${name}\n`,
          env: { SSH_ASKPASS: file('askpass'), SSH_ASKPASS_REQUIRE: 'force', SECRET: password },
        },
      );
      if (status === 0) return undefined;
      const output = `${stdout}\n${stderr}`
        .split(/[\r\n]+/)
        .filter((line) => line.trim() !== '' && !line.startsWith('sftp>'));
      return output.join('; ') || `sftp ended with ${status}`;
    },
    async [Symbol.asyncDispose]() {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
