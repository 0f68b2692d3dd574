/** Directories made through the host alone, for tests of sshd that need no API and no database. */
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { encrypt } from 'unixcrypt';
import type { HostedDirectory } from '../../src/rules/directories/host.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createDirectoryHost, type LocalHost } from '../../src/machine/sftp/host.ts';
import type { LogSockets } from '../../src/machine/sftp/jail.ts';
import type { Paths } from '../../src/machine/sftp/paths.ts';

/** Nobody listens to the transfer log. */
const noSockets: LogSockets = { socketsFor: () => [] };

export function hostOf(paths: Paths, sockets: LogSockets = noSockets): LocalHost & AsyncDisposable {
  const host = createDirectoryHost({ paths, log: createLog('error'), sockets });
  return Object.assign(host, { [Symbol.asyncDispose]: () => host.close() });
}

export const PASSWORD = 'correct-horse-battery-staple';
const PASSWORD_HASH = encrypt(PASSWORD, '$6$rounds=1000$berthtests');

/** A row with `PASSWORD`, mode `password` and no key, unless said otherwise. UIDs differ between test processes. */
export function directory(overrides: Partial<HostedDirectory> = {}): HostedDirectory {
  const suffix = randomUUID().slice(0, 8);
  return {
    id: randomUUID(),
    sftp_username: `test-${suffix}`,
    uid: 1_879_048_192 + Number.parseInt(suffix.slice(0, 6), 16),
    password_hash: PASSWORD_HASH,
    auth_mode: 'password',
    public_key: null,
    max_connections: 10,
    quota_bytes: null,
    suspended: 0,
    expires_at: null,
    allowed_networks: '[]',
    node: '',
    version: 1,
    ...overrides,
  };
}

export interface KeyPair {
  /** Path of the private key. */
  readonly file: string;
  readonly privateKey: string;
  /** Type and base64, as the rules store it. */
  readonly publicKey: string;
}

export function keyPair(dir: string, name = 'id'): KeyPair {
  const file = join(dir, name);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file]);
  const publicKey = readFileSync(`${file}.pub`, 'utf8').trim();
  return { file, privateKey: readFileSync(file, 'utf8'), publicKey };
}

/** A listener with `count` sockets that takes the transfer log's messages and keeps none. */
export async function openSockets(paths: Paths, count = 1): Promise<LogSockets & AsyncDisposable> {
  const servers: ReturnType<typeof createServer>[] = [];
  const opened: string[] = [];
  const open = async (): Promise<void> => {
    const socket = join(paths.corner, `log-${servers.length + 1}.sock`);
    rmSync(socket, { force: true });
    const server = createServer((connection) => connection.resume()).listen(socket);
    await once(server, 'listening');
    chmodSync(socket, 0o666);
    servers.push(server);
    opened.push(socket);
  };
  while (opened.length < count) await open();
  return {
    socketsFor: () => opened,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}
