/**
 * Quotas of the kernel: how many bytes a directory's UID may hold on the disk of the jails (quotactl(2)). They are that
 * disk's own state and not berth's, so what it has is read once, at first, and compared with the rows from then on.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const BLOCK = 1024;
/** Bit of a capability set in proc_pid_status(5). */
const CAP_SYS_ADMIN = 21n;
/** Carries out a request, and says what each is. */
const QUOTA = fileURLToPath(new URL('../../scripts/lib/quota', import.meta.url));
/** Hands a request to a socket. */
const ASK = fileURLToPath(new URL('../../scripts/lib/ask', import.meta.url));
/** For a request, in ms. Nothing else goes on meanwhile, so a few of them are less than systemd's watchdog allows. */
const PATIENCE = 5000;

export interface Quotas {
  /** Why none can be set here, in words for whoever asks for one; undefined when it can. Looks anew. */
  obstacle(): string | undefined;
  /** Whether the kernel holds a UID to so many bytes, null for any number; true as well where it holds nobody to any. */
  isApplied(uid: number, bytes: number | null): boolean;
  /** Has the kernel do so. Does nothing where it cannot. @throws {Error} that tells what setquota(8) says. */
  apply(uid: number, bytes: number | null): void;
}

/**
 * @param socket where systemd starts somebody who may set quotas (berth-quota.socket), for a berth that may not
 * @param berth the process whose powers count
 */
export function kernelQuotas(jails: string, socket?: string, berth: number | 'self' = 'self'): Quotas {
  /** Limits in blocks by UID; undefined until they are read, 'none' where there are no quotas. */
  let limits: Map<number, number> | 'none' | undefined;

  function known(): Map<number, number> | 'none' {
    return (limits ??= obstacle() === undefined ? limitsIn(said(request('limits'))) : 'none');
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
    if (state.outcome !== 'done') return `what sets quotas does not work: ${state.text}`;
    // Where the option is missing, ext4 counts and does not enforce, and this says the same.
    const isOn = /^user quota on .* is on(?! \(accounting\))/m.test(state.text);
    if (!isOn || !/(^|,)(usrquota|usrjquota=[^,]+)(,|$)/.test(mount.options)) return missingQuotas(mount);
    return maySet(berth) || helper() !== undefined ? undefined : POWERLESS;
  }

  function helper(): string | undefined {
    return socket !== undefined && existsSync(socket) ? socket : undefined;
  }

  function request(words: string): Answer {
    const asked = maySet(berth) ? undefined : helper();
    return asked === undefined ? run('sh', [QUOTA], words, jails) : run('perl', [ASK, asked], words, jails);
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
      said(request(`set ${uid} ${blocks}`));
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
  /** Of the file system, which all its mounts share. */
  readonly options: string;
}

/** The kernel tells of no mount that lies outside of a chroot. */
const UNSEEN = 'the disk of the jails cannot be seen from here: berth runs in a chroot that is no mount';

/** The file system that a folder is on (proc_pid_mountinfo(5)): of several mounts over each other the last. */
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

/** What the script answers. */
interface Answer {
  /** `done`, `failed` or `missing`. */
  readonly outcome: string;
  readonly text: string;
}

/** @throws {Error} that tells what the programs say. */
function said({ outcome, text }: Answer): string {
  if (outcome !== 'done') throw new Error(text);
  return text;
}

/** At once, not beside other changes: `apply` gives way to nobody (sftp/host.ts). It takes some ms, through a socket a hundred. */
function run(program: string, args: readonly string[], request: string, jails: string): Answer {
  const { error, stdout, stderr } = spawnSync(program, args, {
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', BERTH_JAIL_DIR: jails },
    encoding: 'utf8',
    input: `${request}\n`,
    maxBuffer: 2 ** 28,
    timeout: PATIENCE,
  });
  if (error) return { outcome: 'failed', text: error.message };
  const [outcome = '', ...lines] = stdout.trim().split('\n');
  return outcome === '' ? { outcome: 'failed', text: stderr.trim() } : { outcome, text: lines.join('\n') };
}
