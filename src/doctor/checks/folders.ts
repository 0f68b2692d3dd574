/** berth's own folders, and every component above them: sshd trusts nothing that others could have written to. */
import { statSync } from 'node:fs';
import type { Config } from '../../base/config.ts';
import { errorMessage } from '../../base/errors.ts';
import { pathsOf } from '../../sftp/paths.ts';
import { isJailDiskThere } from '../../sftp/jail-disk.ts';
import { ancestors, preflight } from '../../sftp/preflight.ts';
import { type Check, fail, type Finding, orOk } from '../finding.ts';
import { ownershipProblem } from '../ownership.ts';

export const checkFolders: Check = (config) => {
  const paths = pathsOf(config);
  return orOk(
    [
      !isJailDiskThere(paths) &&
        fail(
          `${paths.jails} is not the disk that the jails are on: it is not mounted, or another one is`,
          `mount that disk (findmnt ${paths.jails}; /etc/fstab), then: systemctl restart berth-sshd berth`,
        ),
      problemAbove(config),
      closedToKeys([paths.sshd, paths.authorizedKeys]),
      ownershipProblem('folder', paths.jails, 0o755),
      ownershipProblem('folder', paths.corner, 0o700),
      ownershipProblem('folder', paths.userdb, 0o711),
      ownershipProblem('folder', paths.authorizedKeys, 0o711),
      ownershipProblem('folder', paths.limits, 0o700),
      ownershipProblem('folder', paths.sessions, 0o700),
      ownershipProblem('folder', paths.hostKeys, 0o700),
    ],
    `${config.stateDir}, ${config.jailDir} and all above them are root's and closed to others`,
  );
};

/** sshd looks for keys as `berth-keys`, who is nobody in particular on the way to them. */
function closedToKeys(folders: readonly string[]): Finding | undefined {
  const ways = new Set(folders.flatMap((folder) => [...ancestors(folder)]));
  const closed = [...ways].filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 1) & 1) === 0);
  if (closed.length === 0) return undefined;
  const text = `no key logs in: sshd looks for keys as berth-keys, who may not pass ${closed.join(', ')}`;
  return fail(text, `chmod o+x ${closed.join(' ')}`);
}

function problemAbove(config: Config): Finding | undefined {
  try {
    preflight(config);
    return undefined;
  } catch (error) {
    const [text = '', ...remedy] = errorMessage(error).split(/: (?=ch|choose)/);
    return fail(text, remedy.join(': ') || 'see docs/operations.md, "Settings"');
  }
}
