/** Room on the file systems that hold the database and the customers' files: bytes and inodes. */
import { statfsSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';

/** Shares of the file system that are left. */
const FEW = 0.1;
const NONE = 0.02;
/** So much is enough however large the file system is, in bytes and inodes. */
const ENOUGH_BYTES = 50 * 2 ** 30;
const ENOUGH_INODES = 1_000_000;

export function diskCheck(config: Config): Check {
  return {
    name: 'disk',
    run: () =>
      [...new Set([config.stateDir, config.jailDir])].flatMap((folder) => {
        const { bavail, blocks, bsize, ffree, files } = statfsSync(folder);
        const bytes = judge(
          `${folder}: ${gib(bavail * bsize)} of ${gib(blocks * bsize)} GiB free`,
          bavail / blocks,
          bavail * bsize >= ENOUGH_BYTES,
        );
        // Some file systems have no fixed number.
        const inodes =
          files === 0
            ? []
            : [judge(`${folder}: ${ffree} of ${files} inodes free`, ffree / files, ffree >= ENOUGH_INODES)];
        return [bytes, ...inodes.filter(({ verdict }) => verdict !== 'ok')];
      }),
  };
}

function judge(text: string, share: number, enough: boolean): Finding {
  const remedy = 'make room: remove what is not needed, enlarge the file system, or set retention_days';
  if (enough || share >= FEW) return ok(text);
  return share >= NONE ? warn(text, remedy) : fail(text, remedy);
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}
