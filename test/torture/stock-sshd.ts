/** An sshd with Debian's own configuration of PAM and local users, in a namespace of its own, to compare ours with. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';

export interface StockSshd extends AsyncDisposable {
  readonly port: number;
  /** Which of those users exist from now on; at first all do. */
  setKnown(users: readonly string[]): void;
}

/** With those users, who have a password and a key of somebody else in their home. Everything is below `dir`. */
export async function startStockSshd(dir: string, hostKeys: string, users: readonly string[]): Promise<StockSshd> {
  const port = await freePort();
  const base = join(dir, 'stock');
  const ssh = join(base, 'home', '.ssh');
  mkdirSync(ssh, { recursive: true });
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(base, 'key')]);
  execFileSync('cp', [join(base, 'key.pub'), join(ssh, 'authorized_keys')]);
  const config = [
    'ListenAddress 127.0.0.1',
    'UsePAM yes',
    'KbdInteractiveAuthentication no',
    'PidFile none',
    'UseDNS no',
  ];
  config.push(`Port ${port}`, 'MaxStartups 400:30:500', `HostKey ${join(hostKeys, 'ssh_host_ed25519_key')}`);
  writeFileSync(join(base, 'config'), `${config.join('\n')}\n`);
  const steps = `set -e
    # In a plain chroot, / is no mount point: what is below it may still be shared with the machine around (openssh/in-namespace).
    if ! mount --make-rprivate / 2>/dev/null; then
      mount --bind "$1" "$1"
      if grep -F " $1 " /proc/self/mountinfo | grep -q ' shared:'; then exit 1; fi
    fi
    mkdir -p "$1/etc" /run/sshd && cp -a /etc/. "$1/etc/" && mount --bind "$1/etc" /etc
    base=$1; shift; hash=$(openssl passwd -6 correct-horse)
    for user; do useradd -M -d "$base/home" -p "$hash" "$user"; done
    exec /usr/sbin/sshd -D -e -f "$base/config"`;
  const child = spawn('unshare', ['--mount', '--propagation', 'unchanged', 'sh', '-c', steps, '-', base, ...users], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'close');
  let said = '';
  child.stderr.on('data', (text: Buffer) => (said += text.toString()));
  await Promise.race([
    until('the stock sshd listens', () => said.includes('Server listening')),
    ended.then(() => Promise.reject(new Error(`the stock sshd ended: ${said}`))),
  ]);
  const files = ['passwd', 'shadow'].map((name) => join(base, 'etc', name));
  const known = files.map((file) => readFileSync(file, 'utf8'));
  return {
    port,
    setKnown(existing) {
      const missing = users.filter((user) => !existing.includes(user));
      const isLeft = (line: string): boolean => !missing.some((user) => line.startsWith(`${user}:`));
      // Written in place, so nobody may log in meanwhile.
      for (const [index, file] of files.entries())
        writeFileSync(file, (known[index] ?? '').split('\n').filter(isLeft).join('\n'));
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
