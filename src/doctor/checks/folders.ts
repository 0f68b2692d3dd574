/** berth's own folders, and every component above them: sshd trusts nothing that others could have written to. */
import { lstatSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { errorMessage } from '../../errors.ts';
import { pathsOf } from '../../sftp/paths.ts';
import { preflight } from '../../sftp/preflight.ts';
import { type Check, fail, type Finding, orOk } from '../finding.ts';

export function foldersCheck(config: Config): Check {
  return {
    name: 'folders',
    run() {
      const paths = pathsOf(config);
      const modes: readonly (readonly [path: string, mode: number])[] = [
        [paths.jails, 0o755],
        [paths.corner, 0o700],
        [paths.userdb, 0o711],
        [paths.authorizedKeys, 0o711],
        [paths.limits, 0o700],
        [paths.sessions, 0o700],
        [paths.hostKeys, 0o700],
      ];
      const problems = [...above(config), ...modes.flatMap(([path, mode]) => folder(path, mode))];
      return orOk(problems, `${config.stateDir}, ${config.jailDir} and all above them are root's and closed to others`);
    },
  };
}

function above(config: Config): Finding[] {
  try {
    preflight(config);
    return [];
  } catch (error) {
    const [text = '', ...remedy] = errorMessage(error).split(/: (?=ch|choose)/);
    return [fail(text, remedy.join(': ') || 'see the README, "The environment"')];
  }
}

function folder(path: string, mode: number): Finding[] {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return [fail(`${path} is missing`, 'berth prepare')];
  if (!stat.isDirectory()) return [fail(`${path} is no folder`, `move it away, then: berth prepare`)];
  const found = (stat.mode & 0o7777).toString(8);
  if (stat.uid === 0 && stat.gid === 0 && (stat.mode & 0o7777) === mode) return [];
  return [
    fail(
      `${path} is ${stat.uid}:${stat.gid} ${found}`,
      `chown 0:0 ${path} && chmod ${mode.toString(8)} ${path}, or restart berth`,
    ),
  ];
}
