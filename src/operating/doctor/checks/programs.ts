/** Checks that the programs that berth drives are installed and new enough, and limits of the kernel that berth may reach. */
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';
import { command, serveProcess } from '../processes.ts';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { Config } from '../../../foundation/base/config.ts';
import { errorMessage, OperatorError } from '../../../foundation/base/errors.ts';
import { checkWatches } from '../../../machine/sftp/preflight.ts';

import packageJson from '../../../../package.json' with { type: 'json' };

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

/** The share of a limit above which there is a warning. */
const WARNING_SHARE = 0.8;

/** Limits of the kernel that berth may reach: inotify watches and open files. */
export const checkLimits: Check = async (config) => {
  const pid = serveProcess(config);
  return [await watches(config, pid), ...openFiles(pid)];
};

async function watches({ jailDir }: Config, pid: number | undefined): Promise<Finding> {
  try {
    checkWatches(jailDir);
  } catch (error) {
    if (!(error instanceof OperatorError))
      return fail(`${jailDir} cannot be watched: ${errorMessage(error)}`, 'berth prepare');
    return fail(error.message, 'also set it in /etc/sysctl.d/; until then only slow scans find changes');
  }
  const limit = Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'utf8'));
  // The limit is per user; in its unit berth has a user of its own.
  const used = await watchesOf(await userOf(pid ?? process.pid));
  const text = `${used} of ${limit} inotify watches are in use (each folder of a customer takes one)`;
  return used > limit * WARNING_SHARE
    ? warn(text, `sysctl fs.inotify.max_user_watches=${limit * 2}, also in /etc/sysctl.d/`)
    : ok(text);
}

/** The number of a user's watches: the lines `inotify` in proc_pid_fdinfo(5). */
async function watchesOf(user: string): Promise<number> {
  let count = 0;
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    if ((await userOf(pid)) !== user) continue;
    for (const fd of await readdir(`/proc/${pid}/fdinfo`).catch(() => [])) {
      const info = await readFile(`/proc/${pid}/fdinfo/${fd}`, 'utf8').catch(() => '');
      count += info.match(/^inotify /gm)?.length ?? 0;
    }
  }
  return count;
}

/** The effective UID of a process; the empty string when it has ended. */
async function userOf(pid: number | string): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return /^Uid:\t\d+\t(\d+)/m.exec(status)?.[1] ?? '';
}

function openFiles(pid: number | undefined): Finding[] {
  const [used = 0, , most = 0] = readFileSync('/proc/sys/fs/file-nr', 'utf8').split(/\s+/).map(Number);
  const found: Finding[] = [];
  if (used > most * WARNING_SHARE) {
    found.push(warn(`${used} of the machine's ${most} open files are in use`, `sysctl fs.file-max=${most * 2}`));
  }
  if (pid === undefined) return found;
  const open = readdirSync(`/proc/${pid}/fd`).length;
  const limit = Number(/^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1]);
  const text = `berth serve has ${open} of ${limit} files open`;
  return [...found, open > limit * WARNING_SHARE ? warn(text, 'raise LimitNOFILE of berth.service') : ok(text)];
}
