/** Checks that files and folders that sshd trusts belong to root, with exactly their mode. */
import { lstatSync } from 'node:fs';
import { fail, type Finding } from './finding.ts';

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
