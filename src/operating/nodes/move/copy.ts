/**
 * Copies a directory's files to the node to which it moves, by rsync over the operator's own ssh.
 *
 * The user may rename files while rsync reads them as root. So rsync reads through a mount of its own, which is read-only
 * and follows no link (mount(8), nosymfollow): links are copied as links, and none leads out of the directory.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';
import { OperatorError } from '../../../foundation/base/errors.ts';
import { shellWord } from '../../../foundation/base/text.ts';

export interface CopyOptions {
  readonly id: string;
  /** The destination node. */
  readonly to: string;
  /** The words of a command that runs another command there, which is appended to it: `ssh root@sftp-2`. */
  readonly ssh: readonly string[];
  /** The folder with the files. */
  readonly from: string;
  /** Whether the other node's folder is on the same file system, at the same path. */
  readonly isShared: boolean;
  readonly signal: AbortSignal;
}

export interface Copy {
  /** Copies the present files, which may change meanwhile. Repeatable: only differences are sent. */
  present(): Promise<void>;
  /** Copies the changes since then, once nothing changes any more. Afterwards no power cut there can undo the copy. */
  changes(): Promise<void>;
}

/** Mounts the folder `$0` so, and runs the command that follows inside. */
const MOUNTED = 'mount --bind -o ro,nosymfollow,nodev "$0" "$0" && exec "$@"';

/**
 * Keeps modes, times, owners by number, hard links and holes. Leaves out devices, and removes files there that are gone here. Sends a
 * file again when its size or its time differs, even by a nanosecond. Ends when the other side sends nothing for a minute.
 */
const RSYNC = ['rsync', '-rlptgoHS', '--numeric-ids', '--modify-window=-1', '--delete', '--timeout=60'];

/** Copies of a directory in use are repeated until one takes less than this, so that little is left for the last one. */
const SHORT_MS = 10_000;
/** The most such copies. */
const MAX_PASSES = 5;

/** Exit statuses of rsync(1): some files could not be read, or were gone when their turn came. */
const CHANGED_MEANWHILE = [23, 24];

/** How long the last sync of the disk there may take. Nobody can log in meanwhile. */
const SYNC_TIMEOUT_MS = 60_000;

/** Kills the program when this command ends: it must not go on once the directory is in use there. */
const WITH_US = ['setpriv', '--pdeathsig', 'KILL'];

/** Has the other node make room. It and the returned functions @throws {OperatorError} with the output of a failed program. */
export async function copyTo({ id, to, ssh, from, isShared, signal }: CopyOptions): Promise<Copy> {
  const host = ssh.at(-1) ?? '';
  const program = ssh.slice(0, -1);
  const there = (command: string, stop = signal): Promise<string> => run([...ssh, command], { signal: stop });
  // The node checks its name, so that nothing goes to a wrong one. The login may print something before the folder.
  const folder = (await there(`berth node receive ${id} --as ${shellWord(to)}`)).trimEnd().split('\n').at(-1) ?? '';
  const sync = (stop?: AbortSignal): Promise<string> => there(`sync -f ${shellWord(folder)}`, stop);
  const syncSoon = (): Promise<string> => sync(AbortSignal.any([signal, AbortSignal.timeout(SYNC_TIMEOUT_MS)]));
  if (isShared) {
    await checkShared(dirname(folder), there);
    return {
      present: async () => undefined,
      async changes() {
        // No mount is needed, since nobody is in the directory any more; and through another mount, no hard links could be made.
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
      for (let pass = 0; pass < MAX_PASSES && took >= SHORT_MS; pass += 1) {
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

/** Checks that the folder that was made there is the same as the one here. */
async function checkShared(folder: string, there: (command: string) => Promise<string>): Promise<void> {
  const theirs = await there(`stat -c '%i %.9Z' ${shellWord(folder)}`);
  const ours = lstatSync(folder, { bigint: true, throwIfNoEntry: false });
  const changed = ours && `${ours.ctimeNs / NS}.${String(ours.ctimeNs % NS).padStart(9, '0')}`;
  if (ours && theirs.trim() === `${ours.ino} ${changed}`) return;
  throw new OperatorError(`the jails are not on the same storage: ${folder} of the other node is not visible here`);
}

const NS = 1_000_000_000n; // nanoseconds in a second

/** A shell's exit status when it does not find a program (POSIX, XCU 2.8.2). rsync's is the same when the other side does not. */
const NOT_FOUND = 127;

/** The most characters of a program's error output in a message. */
const MAX_COMPLAINT = 400;

async function run(
  [program = '', ...args]: readonly string[],
  { signal, passed = [] }: { readonly signal: AbortSignal; readonly passed?: readonly number[] },
): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
  try {
    const [output, complaint, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    if (status === 0 || (status !== null && passed.includes(status))) return output;
    const reason = complaint
      .trim()
      .replaceAll(/\s*\n\s*/g, '; ')
      .slice(0, MAX_COMPLAINT);
    const advice = status === NOT_FOUND ? '. Both nodes need berth and rsync (apt-get install rsync)' : '';
    throw new OperatorError(
      `${program === 'setpriv' ? 'rsync' : program}: ${reason || `ended with ${status}`}${advice}`,
    );
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`${program} could not be run: ${String(error)}`, { cause: error });
  } finally {
    // Its children may live longer, and hold the pipes open.
    child.stdout.destroy();
    child.stderr.destroy();
  }
}
