/** The programs that berth drives: there, and new enough. */
import packageJson from '../../../package.json' with { type: 'json' };
import { command } from '../command.ts';
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';

/** Debian 12's; older ones are not tried. */
const OLDEST_SSHD = [9, 2] as const;

const PROGRAMS: readonly (readonly [program: string, debianPackage: string])[] = [
  ['ssh-keygen', 'openssh-client'],
  ['openssl', 'openssl'],
  ['unshare', 'util-linux'],
  ['flock', 'util-linux'],
  ['tar', 'tar'],
];

export function programsCheck(): Check {
  return {
    name: 'programs',
    async run() {
      const others = await Promise.all(PROGRAMS.map(([program, name]) => present(program, name)));
      return [node(), await sshd(), ...others.flat()];
    },
  };
}

function node(): Finding {
  const least = packageJson.engines.node.replace('>=', '');
  const [own, wanted] = [process.versions.node.split('.').map(Number), least.split('.').map(Number)];
  const older = compare(own, wanted) < 0;
  const text = `Node ${process.versions.node}`;
  return older ? fail(`${text} is older than ${least}`, 'run scripts/install (or scripts/start) again') : ok(text);
}

async function sshd(): Promise<Finding> {
  const { missing, stderr } = await command('/usr/sbin/sshd', ['-V']);
  if (missing) return fail('sshd is missing', 'apt-get install openssh-server libnss-systemd');
  const [, text = 'unknown', major, minor] = /OpenSSH_((\d+)\.(\d+)\S*?),?\s/.exec(stderr) ?? [];
  const older = compare([Number(major), Number(minor)], OLDEST_SSHD) < 0;
  if (major !== undefined && !older) return ok(`OpenSSH ${text}`);
  return warn(`OpenSSH ${text}: berth is tested from ${OLDEST_SSHD.join('.')} on`, 'upgrade to Debian 12 or later');
}

async function present(program: string, name: string): Promise<Finding[]> {
  const { status } = await command('sh', ['-c', 'command -v "$1" >/dev/null', 'sh', program]);
  return status === 0 ? [] : [fail(`${program} is missing`, `apt-get install ${name}`)];
}

function compare(left: readonly number[], right: readonly number[]): number {
  const at = right.findIndex((part, index) => left[index] !== part);
  return at === -1 ? 0 : (left[at] ?? 0) - (right[at] ?? 0);
}
