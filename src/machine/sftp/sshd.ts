/**
 * Writes everything that our sshd reads, from the templates in `openssh/` for one configuration. None of it changes
 * when directories are created or deleted, so sshd needs no reload. `openssh/README.md` shows which program reads which
 * file.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Config } from '../../foundation/base/config.ts';
import { isMissing, isPostgresUrl } from '../../foundation/base/database-place.ts';
import { errorCode, errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { createLog, type Log } from '../../foundation/base/log.ts';
import { ensureFolder, replaceFile } from './files.ts';
import { hostKeyFiles, repairRotation } from './host-key-rotation.ts';
import { ensureHostKeys, logHostKeys } from './host-keys.ts';
import { checkJailDisk, claimJailDisk } from './jail-disk.ts';
import { KEYS_ID, ownerOf, type Paths, pathsOf, prepareFolders } from './paths.ts';
import { checkWatches, preflight } from './preflight.ts';

const run = promisify(execFile);

/** The folder with the templates and the namespace script. */
const SOURCE = fileURLToPath(new URL('../../../openssh/', import.meta.url));

/** `machine`, `userdb` and `run` are mount points of openssh/in-namespace. */
const FOLDERS = ['', 'etc', 'etc/pam.d', 'etc/machine', 'etc/userdb', 'run'];

const TEMPLATES = [
  ['admit', 0o755],
  ['authorized-keys', 0o755],
  ['etc/nsswitch.conf', 0o644],
  ['etc/passwd', 0o644],
  ['etc/group', 0o644],
  ['etc/shadow', 0o600],
  ['etc/pam.d/sshd', 0o644],
  ['etc/pam.d/other', 0o644],
] as const;

/** The parts of the machine's /etc that sshd and its libraries use. It stays visible at /etc/machine. */
const FROM_MACHINE =
  'host.conf hosts hosts.allow hosts.deny ld.so.cache login.defs resolv.conf security selinux services ssl'.split(' ');

const NEEDED = 'install the Debian packages openssh-server and libnss-systemd';

/**
 * Checks the machine, makes the folders and missing host keys, and writes what sshd reads. Can be repeated; a running
 * sshd is not disturbed. When this returns, sshd has accepted the result.
 * @throws {OperatorError} with one line about the first thing on the machine that has to be repaired.
 */
export async function prepareSshd(
  config: Config,
  log: Log = createLog(config.logLevel),
  disk: { readonly accept?: boolean } = {},
): Promise<void> {
  preflight(config);
  const diskId = await checkJailDisk(config, disk);
  const paths = pathsOf(config);
  // A shared database may be older than this machine.
  const isFirst = isPostgresUrl(config.database) ? ownerOf(paths) === undefined : isMissing(config.database);
  prepareFolders(paths);
  if (diskId !== undefined) await claimJailDisk(paths, diskId);
  checkWatches(paths.jails);
  // The files come first: in the container they include /etc/passwd, which ssh-keygen needs to know its user.
  await writeFiles(config, paths);
  ensureFolder(paths.hostKeys, 0o700);
  await repairRotation(paths.hostKeys);
  logHostKeys(log, await ensureHostKeys(paths.hostKeys), isFirst);
  await writeAcceptedConfig(config, paths);
}

async function writeFiles(config: Config, paths: Paths): Promise<void> {
  for (const name of FOLDERS) ensureFolder(join(paths.sshd, name), 0o755);
  for (const [name, mode] of TEMPLATES) {
    replaceFile(join(paths.sshd, name), await filledTemplate(name, config, paths), mode);
  }
  for (const name of FROM_MACHINE) link(join(paths.sshd, 'etc', name), join('machine', name));
  replaceFile(join(paths.sshd, 'run-links'), runLinks(config), 0o644);
}

/** The names directly below /run that berth's own folders need there, one per line. */
function runLinks({ stateDir, jailDir, runtimeDir }: Config): string {
  const names = [stateDir, jailDir, runtimeDir].flatMap((dir) => /^\/run\/([^/]+)/.exec(dir)?.[1] ?? []);
  return [...new Set(names)].map((name) => `${name}\n`).join('');
}

/**
 * Writes sshd_config without those optional lines, marked with `?`, that this sshd refuses. `sshd -t` reports the
 * numbers of one or several refused lines at a time.
 */
async function writeAcceptedConfig(config: Config, paths: Paths): Promise<void> {
  const file = join(paths.sshd, 'sshd_config');
  let lines = (await filledTemplate('sshd_config', config, paths)).split('\n');
  for (;;) {
    replaceFile(file, lines.map((line) => line.replace(/^\?/, '')).join('\n'), 0o644);
    const complaint = await testConfig(paths, file);
    if (complaint === undefined) return;
    const named = new Set([...complaint.matchAll(/ line (\d+): /g)].map(([, number]) => Number(number)));
    const kept = lines.filter((line, index) => !(line.startsWith('?') && named.has(index + 1)));
    if (kept.length === lines.length) throw new OperatorError(`sshd refuses to start: ${oneLine(complaint)}`);
    lines = kept;
  }
}

/** sshd's complaint about that configuration; undefined when it accepts it. */
async function testConfig(paths: Paths, file: string): Promise<string | undefined> {
  try {
    await run('sh', [join(SOURCE, 'in-namespace'), paths.sshd, '/usr/sbin/sshd', '-t', '-f', file]);
    return undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new OperatorError(`sh is missing: ${NEEDED}`, { cause: error });
    const text = typeof error === 'object' && error !== null && 'stderr' in error ? String(error.stderr) : '';
    if (/sshd: not found|sshd: No such file/.test(text)) throw new OperatorError(`sshd is missing: ${NEEDED}`);
    return text.trim() || errorMessage(error);
  }
}

async function filledTemplate(file: string, config: Config, paths: Paths): Promise<string> {
  const values: Record<string, string> = {
    port: String(config.sftp.port),
    hostKeys: hostKeyFiles(paths.hostKeys)
      .map((key) => `HostKey ${key}`)
      .join('\n'),
    sshd: paths.sshd,
    authorizedKeys: paths.authorizedKeys,
    keysGid: String(KEYS_ID),
    offeredKeys: paths.offeredKeys,
    limits: paths.limits,
    jails: paths.jails,
    sessions: paths.sessions,
    deniedLogins: paths.deniedLogins,
  };
  const template = await readFile(join(SOURCE, file), 'utf8');
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`openssh/${file} has {{${name}}}, for which there is no value`);
    return value;
  });
}

/** Makes a symbolic link, replacing any file of that name: a running sshd sees the old one or the new one. */
function link(path: string, target: string): void {
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  symlinkSync(target, fresh);
  renameSync(fresh, path);
}

function oneLine(text: string): string {
  return text
    .split(/[\r\n]+/)
    .filter(Boolean)
    .join('; ');
}
