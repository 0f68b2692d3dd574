/** What sshd reads and runs as root: prepared, root's, and accepted by sshd. */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../config.ts';
import { pathsOf } from '../../sftp/paths.ts';
import { command, type Outcome } from '../command.ts';
import { type Check, fail, type Finding, orOk } from '../finding.ts';

const IN_NAMESPACE = fileURLToPath(new URL('../../../openssh/in-namespace', import.meta.url));

/** Runs a program where /etc and /run are berth's own, as they are for our sshd. */
export function inNamespace(config: Config, program: string, ...args: string[]): Promise<Outcome> {
  return command('sh', [IN_NAMESPACE, pathsOf(config).sshd, program, ...args]);
}

export function sshdFilesCheck(config: Config): Check {
  return {
    name: 'sshd files',
    async run() {
      const { sshd, hostKeys } = pathsOf(config);
      const problems = [
        ...file(join(sshd, 'admit'), 0o755),
        ...file(join(sshd, 'authorized-keys'), 0o755),
        ...file(join(sshd, 'sshd_config'), 0o644),
        ...file(join(sshd, 'etc', 'nsswitch.conf'), 0o644),
        ...file(join(sshd, 'etc', 'pam.d', 'sshd'), 0o644),
        ...file(join(sshd, 'etc', 'pam.d', 'other'), 0o644),
        ...file(join(sshd, 'etc', 'shadow'), 0o600),
        ...keys(hostKeys),
      ];
      if (problems.length > 0) return problems;
      const test = await inNamespace(config, '/usr/sbin/sshd', '-t', '-f', join(sshd, 'sshd_config'));
      const said = test.stderr
        .trim()
        .split(/[\r\n]+/)
        .join('; ');
      if (test.status !== 0) return [fail(`sshd does not accept its configuration: ${said}`, 'berth prepare')];
      return orOk([], 'admission hook, keys command, configuration and host keys are in order, sshd accepts them');
    },
  };
}

function file(path: string, mode: number): Finding[] {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile()) return [fail(`${path} is missing`, 'berth prepare')];
  if (stat.uid === 0 && (stat.mode & 0o7777) === mode) return [];
  const found = (stat.mode & 0o7777).toString(8);
  return [
    fail(`${path} is owned by ${stat.uid}, mode ${found}`, `chown 0 ${path} && chmod ${mode.toString(8)} ${path}`),
  ];
}

function keys(folder: string): Finding[] {
  const names = lstatSync(folder, { throwIfNoEntry: false }) ? readdirSync(folder) : [];
  const found = names.filter((name) => /^ssh_host_\w+_key$/.test(name));
  if (found.length > 0) return found.flatMap((name) => file(join(folder, name), 0o600));
  return [
    fail(
      `there are no host keys in ${folder}`,
      'berth restore FILE brings back the old ones; berth prepare makes new ones',
    ),
  ];
}
