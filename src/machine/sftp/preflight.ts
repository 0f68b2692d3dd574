/**
 * Finds problems that would make sshd refuse every login, before it does: it would just close the connection. Each is
 * reported in one line with its cause and remedy.
 */
import { lstatSync, readFileSync, statSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../../foundation/base/config.ts';
import { errorCode, OperatorError } from '../../foundation/base/errors.ts';
import { realPath } from '../../foundation/base/files.ts';
import { ownerOf, pathsOf } from './paths.ts';

/**
 * The longest `BERTH_JAIL_DIR`, in bytes: a socket's path may have 107 bytes (unix(7)), and
 * `<jails>/.berth/log-NNN.sock` has to fit.
 */
const MAX_JAIL_DIR_BYTES = 85;

/** CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_KILL, as bits of CapEff (linux/capability.h). */
const CAPABILITIES = (1n << 0n) | (1n << 1n) | (1n << 3n) | (1n << 5n);

type PreflightConfig = Pick<Config, 'stateDir' | 'jailDir' | 'runtimeDir'>;

/**
 * Checks the privileges, and the folders that exist so far.
 * @throws {OperatorError} for the first problem.
 */
export function preflight(config: PreflightConfig): void {
  if (!isPrivileged()) throw new OperatorError('berth needs root, since it makes users for sshd: run it with sudo');
  if (Buffer.byteLength(config.jailDir) > MAX_JAIL_DIR_BYTES) {
    throw new OperatorError(`BERTH_JAIL_DIR may have at most ${MAX_JAIL_DIR_BYTES} characters: ${config.jailDir}`);
  }
  for (const [name, dir] of [
    ['BERTH_STATE_DIR', config.stateDir],
    ['BERTH_JAIL_DIR', config.jailDir],
  ] as const) {
    // Our sshd sees an /etc of its own (openssh/in-namespace).
    if (`${dir}/`.startsWith('/etc/')) throw new OperatorError(`${name} may not be below /etc: ${dir}`);
    checkComponents(name, dir);
  }
  checkOwner(config);
}

function checkOwner(config: PreflightConfig): void {
  const paths = pathsOf(config);
  const owner = ownerOf(paths);
  // An owner that was noted by a path with links is still the same.
  if (owner === undefined || realPath(owner) === realPath(paths.state)) return;
  throw new OperatorError(
    `${paths.jails} belongs to the berth whose BERTH_STATE_DIR is ${owner}: choose another BERTH_JAIL_DIR for this one, or remove ${paths.owner} if that state has moved or gone`,
  );
}

/** Whether this is root, or a user with root's capabilities over files from the unit (berth.service). */
function isPrivileged(): boolean {
  if (process.geteuid?.() === 0) return true;
  const effective = /^CapEff:\t([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  return (BigInt(`0x${effective}`) & CAPABILITIES) === CAPABILITIES;
}

/**
 * Checks a folder and all above it. sshd enters a jail, and PAM runs its hook, only if each of them belongs to root and
 * nobody else may write to it (sshd_config(5), ChrootDirectory).
 */
function checkComponents(variable: string, dir: string): void {
  for (const component of [...ancestors(dir)].toReversed()) {
    const stat = statSync(component, { throwIfNoEntry: false });
    if (stat === undefined) {
      if (!lstatSync(component, { throwIfNoEntry: false })) return;
      throw new OperatorError(
        `${component} (in ${variable}) is a link to a folder that does not exist: create that folder`,
      );
    }
    const [problem, remedy] =
      stat.uid !== 0
        ? ['does not belong to root', `chown root ${component}`]
        : (stat.mode & 0o022) !== 0
          ? ['can be written to by others than root', `chmod go-w ${component}`]
          : [];
    if (problem) {
      throw new OperatorError(
        `sshd trusts nothing below ${component} (in ${variable}), since it ${problem}: ${remedy}, or choose another place`,
      );
    }
  }
}

/** The folder and all above it. */
export function* ancestors(dir: string): Generator<string> {
  yield dir;
  if (dir !== '/') yield* ancestors(dirname(dir));
}

/**
 * Checks that this machine has an inotify watch left.
 * @throws {OperatorError} naming the kernel limit to raise.
 */
export function checkWatches(folder: string): void {
  try {
    watch(folder).close();
  } catch (error) {
    const limit = { ENOSPC: 'max_user_watches', EMFILE: 'max_user_instances' }[errorCode(error) ?? ''];
    if (limit === undefined) throw error;
    throw new OperatorError(
      `no inotify watches left: raise the limit with \`sysctl fs.inotify.${limit}=${limit === 'max_user_watches' ? 524_288 : 1024}\``,
      { cause: error },
    );
  }
}
