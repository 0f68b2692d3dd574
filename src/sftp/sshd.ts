/**
 * Everything that our sshd reads, written from the templates in `openssh/` for one configuration. Nothing of it changes when
 * directories come and go, so sshd needs no reload. `openssh/README.md` shows who reads what.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Config } from '../config.ts';
import { isMissing, isPostgresUrl } from '../db/place.ts';
import { errorCode, errorMessage, OperatorError } from '../errors.ts';
import { createLog, type Log } from '../log.ts';
import { ensureFolder, replaceFile } from './files.ts';
import { hostKeyFiles, mendRotation } from './host-key-rotation.ts';
import { ensureHostKeys, logHostKeys } from './host-keys.ts';
import { checkJailDisk, claimJailDisk } from './jail-disk.ts';
import { KEYS_ID, ownerOf, type Paths, pathsOf, prepareFolders } from './paths.ts';
import { checkWatches, preflight } from './preflight.ts';

const run = promisify(execFile);

/** The folder with the templates and the namespace script. */
const SOURCE = fileURLToPath(new URL('../../openssh/', import.meta.url));

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

/** What sshd and its libraries use of the machine's /etc. It stays visible at /etc/machine. */
const FROM_MACHINE =
  'host.conf hosts hosts.allow hosts.deny ld.so.cache login.defs resolv.conf security selinux services ssl'.split(' ');

const NEEDED = 'install the Debian packages openssh-server and libnss-systemd';

/**
 * Checks the machine, makes the folders and missing host keys, and writes what sshd reads. Repeatable; a running sshd is not
 * disturbed. sshd has accepted the result when this returns.
 * @throws {OperatorError} when something on the machine has to be mended first, in one line.
 */
export async function prepareSshd(
  config: Config,
  log: Log = createLog(config.logLevel),
  disk: { readonly acceptEmpty?: boolean } = {},
): Promise<void> {
  preflight(config);
  const diskId = await checkJailDisk(config, disk);
  const paths = pathsOf(config);
  // A database that machines share may be older than this one.
  const isFirst = isPostgresUrl(config.database) ? ownerOf(paths) === undefined : isMissing(config.database);
  prepareFolders(paths);
  if (diskId !== undefined) await claimJailDisk(paths, diskId);
  checkWatches(paths.jails);
  // First: in the container these files are /etc/passwd and such, without which ssh-keygen does not know whom it works for.
  await writeFiles(config, paths);
  ensureFolder(paths.hostKeys, 0o700);
  await mendRotation(paths.hostKeys);
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

/** The names right below /run that berth's own folders need there, a line each. */
function runLinks({ stateDir, jailDir, runtimeDir }: Config): string {
  const names = [stateDir, jailDir, runtimeDir].flatMap((dir) => /^\/run\/([^/]+)/.exec(dir)?.[1] ?? []);
  return [...new Set(names)].map((name) => `${name}\n`).join('');
}

/** Leaves out the optional lines, marked with `?`, that this sshd refuses: `sshd -t` gives the number of one or of several. */
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

/** What sshd says against that configuration, or undefined when it accepts it. */
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
    if (value === undefined) throw new Error(`openssh/${file} asks for {{${name}}}, which nobody fills in`);
    return value;
  });
}

/** In place of whatever has that name: a running sshd sees the old one or the new one. */
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
