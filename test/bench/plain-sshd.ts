/**
 * The best that SFTP could be here: the same sshd with the same host keys and crypt cost, but a plain local user, no
 * admission hook, no key file each and no transfer log. It is prepared as berth's own is and then stripped.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encrypt } from 'unixcrypt';
import type { Scratch } from '../support/scratch.ts';
import { runSshd, type Sshd, startSshd } from '../support/sshd.ts';

const UID = 1_879_048_190;

export interface PlainSshd extends AsyncDisposable {
  readonly port: number;
  readonly username: string;
  readonly password: string;
  /** Where its files lie. */
  readonly files: string;
}

/** @param publicKey lets that key in too. */
export async function startPlainSshd(place: Scratch, publicKey: string): Promise<PlainSshd> {
  const prepared = await startSshd(place);
  await prepared.stop();
  const password = 'x'.repeat(32);
  strip(prepared, password, publicKey);
  const sshd = await runSshd(prepared.config);
  return {
    port: sshd.port,
    username: 'plain',
    password,
    files: join(home(prepared), 'files'),
    [Symbol.asyncDispose]: () => sshd[Symbol.asyncDispose](),
  };
}

function home({ config }: Sshd): string {
  return join(config.jailDir, 'plain');
}

function strip(sshd: Sshd, password: string, publicKey: string): void {
  const folder = sshd.paths.sshd;
  const edit = (name: string, change: (text: string) => string): void => {
    const path = join(folder, name);
    writeFileSync(path, change(readFileSync(path, 'utf8')));
  };
  const keys = join(folder, 'plain-key');
  writeFileSync(keys, `${publicKey}\n`);
  chmodSync(keys, 0o644);
  edit('etc/pam.d/sshd', (text) => text.replace(/^.*pam_exec.*$/m, 'account required pam_permit.so'));
  edit('etc/nsswitch.conf', (text) => text.replaceAll(/ systemd/g, ''));
  edit('sshd_config', (text) =>
    text
      .replace(/^AuthorizedKeysFile .*$/m, `AuthorizedKeysFile ${keys}`)
      .replace(/^AuthorizedKeysCommand.*\n/gm, '')
      .replace(' -l VERBOSE', ''),
  );
  appendFileSync(join(folder, 'etc/passwd'), `plain:x:${UID}:${UID}::${home(sshd)}:/usr/sbin/nologin\n`);
  appendFileSync(join(folder, 'etc/group'), `plain:x:${UID}:\n`);
  appendFileSync(join(folder, 'etc/shadow'), `plain:${encrypt(password, '$6$rounds=1000$berthbench')}::0:99999:7:::\n`);
  mkdirSync(join(home(sshd), 'files'), { recursive: true });
  chownSync(join(home(sshd), 'files'), UID, UID);
}

/** An SSH key for clients: its file and its public line. */
export function benchKey(folder: string): { readonly file: string; readonly publicKey: string } {
  const file = join(folder, 'bench-key');
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file]);
  return { file, publicKey: readFileSync(`${file}.pub`, 'utf8').trim() };
}
