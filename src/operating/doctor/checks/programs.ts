/** Checks that the programs that berth drives are installed, and new enough. */
import packageJson from '../../../../package.json' with { type: 'json' };
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';
import { command } from '../processes.ts';

/** The version of Debian 12. berth is not tested with older ones. */
const OLDEST_SSHD = '9.2';

/** The Debian package of each program. */
const PACKAGES = {
  sshd: 'openssh-server libnss-systemd',
  'ssh-keygen': 'openssh-client',
  openssl: 'openssl',
  unshare: 'util-linux',
  flock: 'util-linux',
  tar: 'tar',
};

export const checkPrograms: Check = async () => {
  const others = await Promise.all(Object.entries(PACKAGES).map(([name, debian]) => missing(name, debian)));
  return [node(), await sshd(), ...others].filter((finding) => finding !== undefined);
};

function node(): Finding {
  const oldest = packageJson.engines.node.replace('>=', '');
  const text = `Node ${process.versions.node}`;
  if (!isOlder(process.versions.node, oldest)) return ok(text);
  return fail(`${text} is older than ${oldest}`, 'run scripts/install (or scripts/start) again');
}

/** Undefined when sshd is not installed. */
async function sshd(): Promise<Finding | undefined> {
  const { status, stderr } = await command('/usr/sbin/sshd', ['-V']);
  if (status === undefined) return undefined;
  const [, text = 'of an unknown version', version] = /OpenSSH_((\d+\.\d+)\S*?),?\s/.exec(stderr) ?? [];
  if (version !== undefined && !isOlder(version, OLDEST_SSHD)) return ok(`OpenSSH ${text}`);
  return warn(`OpenSSH ${text}: berth is tested from ${OLDEST_SSHD} on`, 'upgrade to Debian 12 or later');
}

async function missing(program: string, debian: string): Promise<Finding | undefined> {
  const { status } = await command('sh', ['-c', 'command -v "$1" >/dev/null', 'sh', program]);
  return status === 0 ? undefined : fail(`${program} is missing`, `apt-get install ${debian}`);
}

function isOlder(version: string, oldest: string): boolean {
  return version.localeCompare(oldest, 'en', { numeric: true }) < 0;
}
