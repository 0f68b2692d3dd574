/** Checks of the machine: its clock, its disks, and berth's own folders on them. */
import { DAY, formatMicros, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import { NOTABLE } from '../../../foundation/db/clock-lead.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { isMissing } from '../../../foundation/base/database-place.ts';
import { type Check, fail, type Finding, ok, orOk, warn } from '../finding.ts';
import { command, serveProcess } from '../processes.ts';
import { lstatSync, statfsSync, statSync } from 'node:fs';
import { counted } from '../../../foundation/base/text.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { kernelQuotas } from '../../../machine/sftp/quota.ts';
import type { Config } from '../../../foundation/base/config.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { isJailDiskThere } from '../../../machine/sftp/jail-disk.ts';
import { ancestors, preflight } from '../../../machine/sftp/preflight.ts';

// Checks the machine's clock, on which signatures, rate limits, retention and certificates depend.

/** No right clock shows an earlier time: berth was written after it. */
const EARLIEST: Micros = Date.UTC(2026, 0) * 1000;
const LATEST: Micros = Date.UTC(2100, 0) * 1000;
/** How far the time in a row may be ahead of the clock. */
const MAX_AHEAD: Micros = 60 * SECOND;

const REMEDY = 'set the clock and keep it right: timedatectl set-ntp true';

export const checkClock: Check = async ({ database }, clock) => {
  const now = clock.now();
  const shown = formatMicros(now);
  if (now < EARLIEST || now > LATEST) return [fail(`the machine's clock says ${shown}`, REMEDY)];
  return orOk([await notSynchronized(), ...(await moved(database, now))], `it is ${shown}`);
};

async function notSynchronized(): Promise<Finding | false> {
  const { stdout, status } = await command('timedatectl', ['show', '--property=NTP,NTPSynchronized']);
  // Without systemd, or in a container, something else keeps the time.
  const usesNtp = status === 0 && /^NTP=yes$/m.test(stdout);
  return usesNtp && /^NTPSynchronized=no$/m.test(stdout) && warn('the clock is not synchronized', REMEDY);
}

async function moved(database: string, now: Micros): Promise<(Finding | false)[]> {
  if (isMissing(database)) return [];
  await using inspection = await inspect(database);
  const { newest } = await inspection.db
    .selectFrom('directories')
    .select(({ fn }) => fn.max('updated_at').as('newest'))
    .executeTakeFirstOrThrow();
  const isBehind = newest !== null && newest >= now + MAX_AHEAD;
  const behind = `the clock was set back: a directory was last changed at ${formatMicros(newest ?? now)}`;
  if ((await inspection.schema()).missing.length > 0) return [isBehind && warn(behind, REMEDY)];
  const { lead } = await inspection.db.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
  const days = (Math.abs(lead) / DAY).toFixed(1);
  const text = `the clock ${lead > 0 ? 'is ahead' : 'was set back'} by ${days} days: while it is in doubt, no file or history is removed for its age`;
  return [
    isBehind && warn(behind, REMEDY),
    Math.abs(lead) > NOTABLE && warn(text, `if it is right: berth clock confirm; otherwise ${REMEDY}`),
  ];
}

// Checks the disks of the database and of the customers' files: free space, free inodes and quotas.

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

// Checks berth's own folders and their parents: sshd trusts nothing that others could have written to.

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
