/** Checks the files that sshd reads and runs as root: they exist, belong to root, and sshd accepts them. `sftp/sshd.ts` writes them. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../foundation/base/clock.ts';
import { nextKeys, OFFERED_FOR } from '../../../machine/sftp/host-key-rotation.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { shortTime } from '../../../foundation/base/terminal.ts';
import { type Check, fail, type Finding, ok, oneLine, warn } from '../finding.ts';
import { ownershipProblem } from './folders.ts';
import { inNamespace } from '../processes.ts';

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
