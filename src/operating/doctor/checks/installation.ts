/** Checks of what is installed: berth, the programs that it needs, and the files that sshd reads. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type Config, unknownSettings } from '../../../foundation/base/config.ts';
import { ignoredLines, SETTINGS } from '../../../foundation/base/settings-file.ts';
import { type Check, fail, type Finding, ok, oneLine, orOk, warn } from '../finding.ts';
import { command, inNamespace, serveProcess } from '../processes.ts';
import { join } from 'node:path';
import { readdir, readFile } from 'node:fs/promises';
import { errorMessage, OperatorError } from '../../../foundation/base/errors.ts';
import { checkWatches } from '../../../machine/sftp/preflight.ts';
import type { Clock } from '../../../foundation/base/clock.ts';
import { nextKeys, OFFERED_FOR } from '../../../machine/sftp/host-key-rotation.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { shortTime } from '../../../foundation/base/text.ts';
import { ownershipProblem } from './machine.ts';

/** Ports below this one need a capability (ip(7), ip_unprivileged_port_start). */
const PRIVILEGED = 1024;

/** Checks that the user of berth.service exists, and that the unit may do what the settings require. */
export const checkUnits: Check = async (config) => {
  const { LoadState: load, User: user = '', AmbientCapabilities: powers = '' } = await propertiesOf('berth.service');
  if (load !== 'loaded') return [ok('no unit berth.service here')];
  return orOk([await missingUser(user), unbindable(config, powers)], `berth.service runs as ${user}`);
};

async function missingUser(user: string): Promise<Finding | undefined> {
  if (user === '' || (await command('getent', ['passwd', user])).status === 0) return undefined;
  return fail(
    `berth.service runs as the user ${user}, and there is none`,
    'systemd-sysusers, then: systemctl restart berth',
  );
}

function unbindable({ api, dashboard }: Config, powers: string): Finding | undefined {
  const port = [api.port, dashboard.own?.port ?? PRIVILEGED].find((each) => each > 0 && each < PRIVILEGED);
  if (port === undefined || powers.includes('cap_net_bind_service')) return undefined;
  const lines = 'CapabilityBoundingSet=CAP_NET_BIND_SERVICE and AmbientCapabilities=CAP_NET_BIND_SERVICE';
  return fail(
    `berth.service may not listen on port ${port}: that needs CAP_NET_BIND_SERVICE`,
    `systemctl edit berth: below [Service] ${lines}; or put a proxy in front`,
  );
}

async function propertiesOf(unit: string): Promise<Record<string, string | undefined>> {
  if (!existsSync('/run/systemd/system')) return {};
  const { stdout } = await command('systemctl', ['show', '--property=LoadState,User,AmbientCapabilities', unit]);
  return Object.fromEntries(stdout.split('\n').map((line) => line.split('=')));
}

/** Checks that every setting has an effect, and that a restore has left no other settings. */
export function settingsFindings(environment: Readonly<Record<string, string | undefined>>): Finding[] {
  const unknown = unknownSettings(environment).map((name) =>
    fail(
      `${name} is not a setting and has no effect`,
      `correct or remove it in ${SETTINGS}, then: systemctl restart berth berth-sshd`,
    ),
  );
  const ignored = ignoredLines().map((line) => fail(line, 'correct it, then: systemctl restart berth berth-sshd'));
  const restored = `${SETTINGS}.restored`;
  return orOk(
    [
      ...unknown,
      ...ignored,
      existsSync(restored) &&
        warn(
          `${restored} has the settings of a restored backup, which are not in use`,
          `copy what you need into ${SETTINGS}, restart berth and berth-sshd, then remove that file`,
        ),
    ],
    'berth knows every BERTH_* variable',
  );
}

/** Checks for the admin key that scripts/start leaves in a file, which should not exist in production. */
export const checkTrial: Check = ({ stateDir }) => {
  const key = join(stateDir, 'demo-key');
  if (!existsSync(key)) return [ok('nothing is left of a trial')];
  const remedy =
    'before production: run scripts/install, which removes both, or berth account delete, then remove that file';
  return [warn(`the account "Demo" of scripts/start has an admin key in ${key}`, remedy)];
};

// Checks that the programs that berth drives are installed and new enough, and limits of the kernel that berth may
// reach.

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
  return [node(), await sshdProgram(), ...others].filter((finding) => finding !== undefined);
};

function node(): Finding {
  const oldest = packageJson.engines.node.replace('>=', '');
  const text = `Node ${process.versions.node}`;
  if (!isOlder(process.versions.node, oldest)) return ok(text);
  return fail(`${text} is older than ${oldest}`, 'run scripts/install (or scripts/start) again');
}

/** Undefined when sshd is not installed. */
async function sshdProgram(): Promise<Finding | undefined> {
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

// Checks the files that sshd reads and runs as root: they exist, belong to root, and sshd accepts them.
// `sftp/sshd.ts` writes them.

/** The files by name in the folder `sshd`. */
const MODES: Readonly<Record<string, number>> = {
  admit: 0o755,
  'authorized-keys': 0o755,
  sshd_config: 0o644,
  'etc/nsswitch.conf': 0o644,
  'etc/pam.d/sshd': 0o644,
  'etc/pam.d/other': 0o644,
  'etc/shadow': 0o600,
};

export const checkSshdFiles: Check = async (config, clock) => {
  const { sshd, hostKeys } = pathsOf(config);
  const files = Object.entries(MODES).map(([name, mode]) => ownershipProblem('file', join(sshd, name), mode));
  const problems = [...files, ...hostKeyProblems(hostKeys)].filter((problem) => problem !== undefined);
  if (problems.length > 0) return problems;
  const { status, stderr } = await inNamespace(config, '/usr/sbin/sshd', '-t', '-f', join(sshd, 'sshd_config'));
  if (status === 0)
    return [
      ok('admission hook, keys command, configuration and host keys are in order, and sshd accepts them'),
      ...unfinishedRotation(hostKeys, clock),
    ];
  return [fail(`sshd does not accept its configuration: ${oneLine(stderr)}`, 'berth prepare')];
};

function unfinishedRotation(folder: string, clock: Clock): Finding[] {
  const since = nextKeys(folder)[0]?.since;
  if (since === undefined || clock.now() < since + OFFERED_FOR) return [];
  const text = `new host keys have been offered beside the old ones since ${shortTime(since)}`;
  return [warn(text, 'berth host-key rotate --finish')];
}

function hostKeyProblems(folder: string): (Finding | undefined)[] {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => /^ssh_host_\w+_key$/.test(name)) : [];
  if (names.length > 0) return names.map((name) => ownershipProblem('file', join(folder, name), 0o600));
  const remedy = 'berth restore FILE restores the old ones; berth prepare makes new ones';
  return [fail(`there are no host keys in ${folder}`, remedy)];
}
