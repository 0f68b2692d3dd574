/**
 * `npm run torture -- login-timing [--attempts 100]`: whether the time of a refused login tells a known user from an
 * unknown one, on berth's sshd and, interleaved, on a plain one of the same machine with a local user. In ms.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import ssh2 from 'ssh2';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { directory, hostOf } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

const { values } = parseArgs({ options: { attempts: { type: 'string', default: '100' } } });

const AT_ONCE = 5;

using place = scratch();
await using sshd = await startSshd(place);
await using host = hostOf(sshd.paths);
const row = directory();
await host.apply(row);

/** Milliseconds from the password's sending to the refusal. */
function attempt(port: number, username: string): Promise<number> {
  const client = new ssh2.Client();
  let sent = 0;
  return new Promise((resolve, reject) => {
    client.on('error', (error) => (sent > 0 ? resolve(performance.now() - sent) : reject(error)));
    client.on('close', () => reject(new Error('hung up')));
    client.connect({
      host: '127.0.0.1',
      port,
      username,
      authHandler: (methods, _partial, next) => {
        if (sent > 0) return next(false as never); // no more methods; its types do not know
        if (methods === null) return next({ type: 'none', username });
        sent = performance.now();
        next({ type: 'password', username, password: 'wrong-wrong-wrong-wrong-wrong-wro' });
      },
    });
  }).finally(() => client.destroy()) as Promise<number>;
}

// A stock sshd with Debian's PAM service, in a namespace of its own with one more local user.
const port = await freePort();
const plain = join(place.dir, 'plain');
execFileSync('mkdir', ['-p', plain]);
writeFileSync(
  join(plain, 'config'),
  `Port ${port}\nListenAddress 127.0.0.1\nUsePAM yes\nPidFile none\nUseDNS no\nMaxStartups 200:30:400\nHostKey ${join(sshd.paths.hostKeys, 'ssh_host_ed25519_key')}\n`,
);
const steps = `mount --make-rprivate / && mkdir -p ${plain}/etc && cp -a /etc/. ${plain}/etc/ && mkdir -p /run/sshd && mount --bind ${plain}/etc /etc &&
  useradd -M -p "$(openssl passwd -6 correct-horse)" plainuser && exec /usr/sbin/sshd -D -e -f ${plain}/config`;
const other = spawn('unshare', ['--mount', 'sh', '-c', steps], { stdio: ['ignore', 'ignore', 'pipe'] });
let said = '';
other.stderr.on('data', (text: Buffer) => (said += text.toString()));
await until(`the plain sshd listens: ${said}`, () => said.includes('Server listening'));

const kinds = {
  berth_known: [sshd.port, row.sftp_username],
  berth_unknown: [sshd.port, 'no-such-user'],
  plain_known: [port, 'plainuser'],
  plain_unknown: [port, 'no-such-user'],
} as const;
const times = new Map<string, number[]>();
// PAM lets each refusal wait for about two seconds, so some attempts of each kind run side by side.
for (let done = 0; done < Number(values.attempts); done += AT_ONCE) {
  const round = Object.entries(kinds).flatMap(([kind, [at, username]]) =>
    Array.from({ length: AT_ONCE }, async () => [kind, await attempt(at, username)] as const),
  );
  for (const [kind, time] of await Promise.all(round)) times.set(kind, [...(times.get(kind) ?? []), time]);
}
const figures = [...times].map(([kind, list]) => {
  const sorted = list.toSorted((a, b) => a - b);
  const quantile = (share: number): number =>
    Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10;
  return [
    kind,
    { median: quantile(0.5), p10: quantile(0.1), p90: quantile(0.9), least: quantile(0), most: quantile(1) },
  ];
});
process.stdout.write(`${JSON.stringify(Object.fromEntries(figures))}\n`);
const exited = once(other, 'exit');
other.kill('SIGTERM');
await exited;
