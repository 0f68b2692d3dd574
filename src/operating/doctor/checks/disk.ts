/** Checks the disks of the database and of the customers' files: free space, free inodes and quotas. */
import { statfsSync, statSync } from 'node:fs';
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/terminal.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { kernelQuotas } from '../../../machine/sftp/quota.ts';
import { serveProcess } from '../processes.ts';

/** Free shares of a file system below which it is nearly full, and full. */
const LOW_SHARE = 0.1;
const FULL_SHARE = 0.02;
/** Like `LOW_SHARE`, if customers can fill the database's disk, which may happen before anybody notices. */
const LOW_SHARE_IF_FILLABLE = 0.25;
/** This much is enough, however large the file system. */
const ENOUGH_BYTES = 50 * 2 ** 30;
const ENOUGH_INODES = 1_000_000;

export const checkDisk: Check = ({ stateDir, jailDir }) => [
  ...[...new Set([stateDir, jailDir])].flatMap(checkRoom),
  ...shared(stateDir, jailDir),
];

function checkRoom(folder: string): Finding[] {
  const { bavail, blocks, bsize, ffree, files } = statfsSync(folder);
  const text = `${folder}: ${gib(bavail * bsize)} of ${gib(blocks * bsize)} GiB free`;
  const space = judge(text, bavail / blocks, bavail * bsize >= ENOUGH_BYTES);
  // Some file systems have no fixed number of inodes, and report 0.
  const inodes = judge(
    `${folder}: ${ffree} of ${files} inodes free`,
    ffree / files,
    files === 0 || ffree >= ENOUGH_INODES,
  );
  return inodes.verdict === 'ok' ? [space] : [space, inodes];
}

/** If customers can fill the database's disk, their uploads can stop the API. */
function shared(stateDir: string, jailDir: string): Finding[] {
  if (statSync(stateDir).dev !== statSync(jailDir).dev) return [];
  const { bavail, blocks, bsize } = statfsSync(stateDir);
  const isEnough = bavail * bsize >= ENOUGH_BYTES || bavail / blocks >= LOW_SHARE_IF_FILLABLE;
  const text = `${stateDir} and ${jailDir} share a disk: when uploads have filled it, the API can only delete`;
  const remedy = 'give BERTH_JAIL_DIR a file system of its own, or a quota';
  return isEnough ? [ok(text)] : [warn(text, remedy)];
}

function judge(text: string, share: number, isEnough: boolean): Finding {
  if (isEnough || share >= LOW_SHARE) return ok(text);
  const remedy = 'make room: remove files, enlarge the file system, or set retention_days';
  return share >= FULL_SHARE ? warn(text, remedy) : fail(text, remedy);
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}

/** Checks that the disk of the jails enforces quotas, if any directory has one. */
export const checkQuotas: Check = async (config) => {
  const { database, node, jailDir } = config;
  const { quotaSocket } = pathsOf(config);
  // Checked with the rights of berth serve, which may have fewer than the doctor.
  const obstacle = kernelQuotas(jailDir, quotaSocket, serveProcess(config)).obstacle();
  if (obstacle === undefined) return [ok(`${jailDir}: the kernel enforces quotas of directories`)];
  await using inspection = await inspect(database);
  const { count } = await inspection.db
    .selectFrom('directories')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('node', '=', node)
    .where('deleted_at', 'is', null)
    .where('quota_bytes', 'is not', null)
    .executeTakeFirstOrThrow();
  if (count === 0) return [ok(`no directory has a quota, and none can have one here: ${obstacle}`)];
  const first = obstacle.includes(quotaSocket) ? 'systemctl restart berth-quota.socket' : 'fix this';
  return [
    fail(
      `the quotas of ${counted(count, 'directory', 'directories')} are not enforced: ${obstacle}`,
      `${first}, then restart berth`,
    ),
  ];
};
