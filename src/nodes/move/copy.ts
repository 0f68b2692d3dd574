/**
 * Copies the files of a directory to the node that it goes to, by rsync over the operator's own ssh.
 *
 * The user may change names while rsync reads, as root. So rsync sees the files through a mount of its own that follows no
 * link (mount(8), nosymfollow) and cannot be written: links are copied as links, and none leads out of the directory.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';
import { OperatorError } from '../../base/errors.ts';
import { shellWord } from '../../base/terminal.ts';

export interface CopyOptions {
  readonly id: string;
  /** The node that it goes to. */
  readonly to: string;
  /** The arguments of a command that runs another command there, appended to it: `ssh root@sftp-2`. */
  readonly ssh: readonly string[];
  /** The folder with the files. */
  readonly from: string;
  /** The other node's folder is on the same file system, by the same path. */
  readonly isShared: boolean;
  readonly signal: AbortSignal;
}

export interface Copy {
  /** Copies the present files, while they may change. Repeatable: only differences are sent. */
  present(): Promise<void>;
  /** Copies the changes since then, once nothing changes any more; no power cut there can undo it. */
  changes(): Promise<void>;
}

/** `$0` is the folder; what follows runs where it is mounted so. */
const MOUNTED = 'mount --bind -o ro,nosymfollow,nodev "$0" "$0" && exec "$@"';

/**
 * Modes, times, owners by number, hard links and holes are kept; devices are left out. What has gone is removed there, too.
 * A file is sent again when its size or its time differs, by so little as a nanosecond. It ends when the other side says
 * nothing for a minute.
 */
const RSYNC = ['rsync', '-rlptgoHS', '--numeric-ids', '--modify-window=-1', '--delete', '--timeout=60'];

/** Copies in use are repeated until one takes less than this, so that little is left for the last one … */
const SHORT_MS = 10_000;
/** … but no more often. */
const PASSES = 5;

/** Exit statuses of rsync(1): something could not be read, or was gone when its turn came. */
const CHANGED_MEANWHILE = [23, 24];

/** How long the disk there may take for the last changes: nobody can log in meanwhile. */
const SYNC_TIMEOUT_MS = 60_000;

/** Ends with the command, however that ends: what it leaves behind must not go on once the directory is in use there. */
const WITH_US = ['setpriv', '--pdeathsig', 'KILL'];

/** Has the other node make room. @throws {OperatorError} with the output of what failed; so do its functions. */
export async function copyTo({ id, to, ssh, from, isShared, signal }: CopyOptions): Promise<Copy> {
  const [host = '', program] = [ssh.at(-1), ssh.slice(0, -1)];
  const there = (command: string, stop = signal): Promise<string> => run([...ssh, command], { signal: stop });
  // The name is that of the node, so that nothing goes to another one. A login may say something before.
  const folder = (await there(`berth node receive ${id} --as ${shellWord(to)}`)).trimEnd().split('\n').at(-1) ?? '';
  const sync = (stop?: AbortSignal): Promise<string> => there(`sync -f ${shellWord(folder)}`, stop);
  const syncSoon = (): Promise<string> => sync(AbortSignal.any([signal, AbortSignal.timeout(SYNC_TIMEOUT_MS)]));
  if (isShared) {
    await checkShared(dirname(folder), there);
    return {
      present: async () => undefined,
      async changes() {
        // Nobody is in there any more, and through another mount there would be no links.
        await run([...WITH_US, ...RSYNC, `--link-dest=${from}/`, '--', `${from}/`, `${folder}/`], { signal });
        await syncSoon();
      },
    };
  }
  const place = host.replace(/[^@]*:[^@]*$/, '[$&]'); // an IPv6 address
  const copy = (passed: readonly number[]): Promise<string> => {
    const rsync = [...RSYNC, '-e', program.join(' '), '--', `${from}/`, `${place}:${folder}/`];
    const mounted = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', MOUNTED, from, ...rsync];
    return run([...WITH_US, ...mounted], { signal, passed });
  };
  return {
    async present() {
      let took = Infinity;
      for (let pass = 0; pass < PASSES && took >= SHORT_MS; pass += 1) {
        const began = performance.now();
        await copy(CHANGED_MEANWHILE);
        took = performance.now() - began;
      }
      await sync();
    },
    async changes() {
      await copy([]);
      await syncSoon();
    },
  };
}

/** Whether the folder that was made there is visible here, and not another one of that name. */
async function checkShared(folder: string, there: (command: string) => Promise<string>): Promise<void> {
  const theirs = await there(`stat -c '%i %.9Z' ${shellWord(folder)}`);
  const ours = lstatSync(folder, { bigint: true, throwIfNoEntry: false });
  const changed = ours && `${ours.ctimeNs / NS}.${String(ours.ctimeNs % NS).padStart(9, '0')}`;
  if (ours && theirs.trim() === `${ours.ino} ${changed}`) return;
  throw new OperatorError(`the jails are not on the same storage: ${folder} of the other node is not to be seen here`);
}

const NS = 1_000_000_000n;

/** A shell's exit status when it does not find a program (POSIX, XCU 2.8.2); rsync's, too, when the other side's does not. */
const NOT_FOUND = 127;

/** Characters of what a program complains of. */
const COMPLAINT = 400;

async function run(
  [program = '', ...args]: readonly string[],
  { signal, passed = [] }: { readonly signal: AbortSignal; readonly passed?: readonly number[] },
): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
  try {
    const [said, complaint, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    if (status === 0 || (status !== null && passed.includes(status))) return said;
    const reason = complaint
      .trim()
      .replaceAll(/\s*\n\s*/g, '; ')
      .slice(0, COMPLAINT);
    const advice = status === NOT_FOUND ? '. Both nodes need berth and rsync (apt-get install rsync)' : '';
    throw new OperatorError(
      `${program === 'setpriv' ? 'rsync' : program}: ${reason || `ended with ${status}`}${advice}`,
    );
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`${program} could not be run: ${String(error)}`, { cause: error });
  } finally {
    // Its children may live longer.
    child.stdout.destroy();
    child.stderr.destroy();
  }
}
