/**
 * Sets the kernel's quotas: how many bytes a directory's UID may use on the jails' disk (quotactl(2)). The quotas are
 * that disk's state and not berth's, so they are read once at first, and then compared with the rows.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { errorCode } from '../../foundation/base/errors.ts';
import { isThere } from '../../foundation/base/files.ts';

const BLOCK = 1024;
/** Bit of a capability set in proc_pid_status(5). */
const CAP_SYS_ADMIN = 21n;
/** The script that carries out requests, and documents them. */
const QUOTA = fileURLToPath(new URL('../../../scripts/lib/quota', import.meta.url));
/** The script that sends a request to a socket. */
const ASK = fileURLToPath(new URL('../../../scripts/lib/ask', import.meta.url));
/** How long a request may take. It blocks the process, and a few of them have to fit into systemd's watchdog time. */
const TIMEOUT_MS = 5000;

export interface Quotas {
  /** Why no quota can be set here, as a sentence for the caller; undefined when one can. Checks again each time. */
  obstacle(): string | undefined;
  /** Whether the kernel limits a UID to `bytes`, null for no limit; always true where the kernel sets no quotas. */
  isApplied(uid: number, bytes: number | null): boolean;
  /**
   * Sets the kernel's limit for a UID. Does nothing where the kernel sets no quotas.
   * @throws {Error} with the message of setquota(8).
   */
  apply(uid: number, bytes: number | null): void;
}

/**
 * @param socket the socket of a helper that may set quotas (berth-quota.socket), for a berth that may not
 * @param berth the process whose capabilities count
 */
export function kernelQuotas(jails: string, socket?: string, berth: number | 'self' = 'self'): Quotas {
  /** Limits in blocks by UID; undefined until they are read, 'none' where the kernel sets no quotas. */
  let limits: Map<number, number> | 'none' | undefined;

  function known(): Map<number, number> | 'none' {
    return (limits ??= obstacle() === undefined ? limitsIn(successText(request('limits'))) : 'none');
  }

  function obstacle(): string | undefined {
    const mount = mountOf(jails);
    const found = mount ? obstacleAt(mount) : UNSEEN;
    if (found !== undefined) limits = 'none';
    else if (limits === 'none') limits = undefined;
    return found;
  }

  function obstacleAt(mount: Mount): string | undefined {
    const state = request('state');
    if (state.outcome === 'missing') return "the server lacks the programs for quotas: install Debian's package quota";
    if (state.outcome !== 'done') return `quotas cannot be set: ${state.text}`;
    // Without the mount option, ext4 counts without enforcing, and quotaon reports the same.
    const isOn = /^user quota on .* is on(?! \(accounting\))/m.test(state.text);
    if (!isOn || !/(^|,)(usrquota|usrjquota=[^,]+)(,|$)/.test(mount.options)) return missingQuotas(mount);
    return maySet(berth) || helper() !== undefined ? undefined : POWERLESS;
  }

  function helper(): string | undefined {
    return socket !== undefined && isThere(socket) ? socket : undefined;
  }

  function request(text: string): Answer {
    const through = maySet(berth) ? undefined : helper();
    return through === undefined ? run('sh', [QUOTA], text, jails) : run('perl', [ASK, through], text, jails);
  }

  function isApplied(uid: number, bytes: number | null): boolean {
    const all = known();
    return all === 'none' || (all.get(uid) ?? 0) === blocksOf(bytes);
  }

  return {
    obstacle,
    isApplied,
    apply(uid, bytes) {
      const all = known();
      if (all === 'none' || isApplied(uid, bytes)) return;
      const blocks = blocksOf(bytes);
      successText(request(`set ${uid} ${blocks}`));
      if (blocks === 0) all.delete(uid);
      else all.set(uid, blocks);
    },
  };
}

/** To setquota, 0 means no limit. */
function blocksOf(bytes: number | null): number {
  return bytes === null ? 0 : Math.max(Math.floor(bytes / BLOCK), 1);
}

interface Mount {
  readonly point: string;
  readonly type: string;
  readonly device: string;
  /** Options of the file system, which all its mounts share. */
  readonly options: string;
}

/** The kernel does not list mounts outside of a chroot. */
const UNSEEN = 'berth cannot see the disk of the jails: it runs in a chroot that is not a mount';

/** The file system that a folder is on (proc_pid_mountinfo(5)). Of several mounts on one point, the last counts. */
function mountOf(folder: string): Mount | undefined {
  const path = realpathSync(folder);
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').trimEnd().split('\n').map(mountIn);
  const above = mounts.filter(({ point }) => point === '/' || path === point || path.startsWith(`${point}/`));
  const longest = Math.max(...above.map(({ point }) => point.length));
  return above.findLast(({ point }) => point.length === longest);
}

function mountIn(line: string): Mount {
  const [before = '', after = ''] = line.split(' - ', 2);
  const point = (before.split(' ')[4] ?? '').replaceAll(/\\(\d{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
  const [type = '', device = '', options = ''] = after.split(' ');
  return { point, type, device, options };
}

const POWERLESS = 'berth may not set quotas: it runs without CAP_SYS_ADMIN (docs/operations.md, "Quotas")';

function missingQuotas({ point, type, device }: Mount): string {
  const where = `the disk of the jails (${type} at ${point}) enforces no user quotas`;
  if (type === 'ext4') return `${where}: unmount it, tune2fs -O quota ${device}, and mount it with the option usrquota`;
  if (type === 'xfs') return `${where}: unmount it, and mount it with the option usrquota`;
  return `${where}: ext4 and XFS have them, mounted with the option usrquota`;
}

function maySet(berth: number | 'self'): boolean {
  const [, set = '0'] = /^CapEff:\t([\da-f]+)$/m.exec(readFileSync(`/proc/${berth}/status`, 'utf8')) ?? [];
  return ((BigInt(`0x${set}`) >> CAP_SYS_ADMIN) & 1n) === 1n;
}

/** The hard limits of all users that have one. */
function limitsIn(list: string): Map<number, number> {
  const limits = new Map<number, number>();
  // #UID,block status,file status,blocks used,soft limit,hard limit,…
  for (const line of list.split('\n')) {
    const [user = '', , , , , hard = '0'] = line.split(',');
    if (/^#\d+$/.test(user) && Number(hard) > 0) limits.set(Number(user.slice(1)), Number(hard));
  }
  return limits;
}

/** An answer of the script. */
interface Answer {
  /** `done`, `failed` or `missing`. */
  readonly outcome: string;
  readonly text: string;
}

/** The text of a successful answer. @throws {Error} with the programs' message. */
function successText({ outcome, text }: Answer): string {
  if (outcome !== 'done') throw new Error(text);
  return text;
}

/**
 * Runs a request synchronously, because `apply` (sftp/host.ts) must not be interleaved with other changes. It takes
 * some ms, or a hundred through a socket.
 */
function run(program: string, args: readonly string[], request: string, jails: string): Answer {
  const { error, stdout, stderr } = spawnSync(program, args, {
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', BERTH_JAIL_DIR: jails },
    encoding: 'utf8',
    input: `${request}\n`,
    maxBuffer: 2 ** 28,
    timeout: TIMEOUT_MS,
  });
  // A program that ends before it has read the request says why.
  const hasEndedEarly = errorCode(error) === 'EPIPE' && stderr !== '';
  if (error && !hasEndedEarly) return { outcome: 'failed', text: error.message };
  const [outcome = '', ...lines] = stdout.trim().split('\n');
  return outcome === '' ? { outcome: 'failed', text: stderr.trim() } : { outcome, text: lines.join('\n') };
}
