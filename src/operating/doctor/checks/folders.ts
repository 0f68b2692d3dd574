/** Checks berth's own folders and their parents: sshd trusts nothing that others could have written to. */
import { lstatSync, statSync } from 'node:fs';
import type { Config } from '../../../foundation/base/config.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { isJailDiskThere } from '../../../machine/sftp/jail-disk.ts';
import { ancestors, preflight } from '../../../machine/sftp/preflight.ts';
import { type Check, fail, type Finding, orOk } from '../finding.ts';

/** Checks that fail without the disk of the jails, or say nothing about it. */
const OF_THE_DISK = ['disk', 'quotas', 'serve', 'sshd', 'login'];

export const checkFolders: Check = (config) => {
  const paths = pathsOf(config);
  const isDiskThere = isJailDiskThere(paths);
  return orOk(
    [
      !isDiskThere && {
        ...fail(
          `${paths.jails} is not on the disk of the jails: it is not mounted, or another one is`,
          `mount that disk (findmnt ${paths.jails}; /etc/fstab): berth and sshd then start automatically`,
        ),
        explains: OF_THE_DISK,
      },
      problemAbove(config),
      closedToKeys([paths.sshd, paths.authorizedKeys]),
      ...(isDiskThere
        ? [ownershipProblem('folder', paths.jails, 0o711), ownershipProblem('folder', paths.corner, 0o700)]
        : []),
      ownershipProblem('folder', paths.userdb, 0o711),
      ownershipProblem('folder', paths.authorizedKeys, 0o711),
      ownershipProblem('folder', paths.limits, 0o700),
      ownershipProblem('folder', paths.sessions, 0o700),
      ownershipProblem('folder', paths.hostKeys, 0o700),
    ],
    `${config.stateDir}, ${config.jailDir} and their parents belong to root and are closed to others`,
  );
};

/** Checks that `berth-keys`, as which sshd reads the keys, may pass the folders on the way to them. */
function closedToKeys(folders: readonly string[]): Finding | undefined {
  const ways = new Set(folders.flatMap((folder) => [...ancestors(folder)]));
  const closed = [...ways].filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 1) & 1) === 0);
  if (closed.length === 0) return undefined;
  const text = `no login by key works: sshd reads keys as berth-keys, who may not enter ${closed.join(', ')}`;
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

/** A problem with the owner or mode of a file or folder that berth made, if there is one. */
export function ownershipProblem(kind: 'file' | 'folder', path: string, mode: number): Finding | undefined {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return fail(`${path} is missing`, 'berth prepare');
  if (kind === 'file' ? !stat.isFile() : !stat.isDirectory()) {
    return fail(`${path} is not a ${kind}`, 'move it away, then: berth prepare');
  }
  const found = stat.mode & 0o7777;
  if (stat.uid === 0 && stat.gid === 0 && found === mode) return undefined;
  const owner = stat.gid === 0 ? stat.uid : `${stat.uid}:${stat.gid}`;
  return fail(
    `${path} is owned by ${owner}, mode ${found.toString(8)}`,
    `chown 0:0 ${path} && chmod ${mode.toString(8)} ${path}`,
  );
}
