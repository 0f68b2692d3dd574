/** Checks that directories and SFTP users are as their rows say. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { inspect } from '../../../foundation/db/inspect.ts';
import { HOSTED } from '../../../rules/directories/host.ts';
import { parsePublicKey } from '../../../rules/directories/public-key.ts';
import { areCredentialsRight, userOfRecord } from '../../../machine/sftp/credentials.ts';
import { isJailRight } from '../../../machine/sftp/jail.ts';
import { isJailDiskThere } from '../../../machine/sftp/jail-disk.ts';
import { CORNER, KEYS_ID, pathsOf } from '../../../machine/sftp/paths.ts';
import { type Check, fail, type Finding, oneLine, orOk, some, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/text.ts';
import { join } from 'node:path';
import type { Config } from '../../../foundation/base/config.ts';
import { command, inNamespace } from '../processes.ts';

const RESTART = 'restart berth: every start repairs this';

export const checkDirectories: Check = async (config) => {
  const paths = pathsOf(config);
  // Listed first: a row is committed before its jail appears.
  const jails = namesIn(paths.jails).filter((name) => name !== CORNER && name !== 'lost+found');
  const users = [...new Set(namesIn(paths.userdb).flatMap((file) => userOfRecord(file) ?? []))];
  await using inspection = await inspect(config.database);
  const rows = await inspection.db
    .selectFrom('directories')
    .select([...HOSTED, 'deleted_at', 'sftp_host', 'sftp_port'])
    .where('node', '=', config.node)
    .execute();
  const pendingApply = await inspection.db.selectFrom('unapplied').select('directory_id').execute();
  const marked = new Set(pendingApply.map((row) => row.directory_id));
  const changing = new Set(rows.map((row) => row.id).filter((id) => marked.has(id)));
  const live = rows.filter((row) => row.deleted_at === null && !changing.has(row.id));
  const known = new Set(rows.map((row) => row.sftp_username));

  const liveWhere = (isSo: (row: (typeof live)[number]) => boolean): string[] =>
    live.filter(isSo).map((row) => row.sftp_username);
  const isDiskThere = isJailDiskThere(paths);
  const missing = liveWhere((row) => isDiskThere && !existsSync(paths.jail(row.sftp_username)));
  const wrong = liveWhere(
    (row) => isDiskThere && existsSync(paths.jail(row.sftp_username)) && !isJailRight(paths, row),
  );
  const credentials = liveWhere((row) => !areCredentialsRight(paths, row));
  const weak = liveWhere(({ auth_mode, public_key }) => auth_mode !== 'password' && hasWeak(public_key ?? ''));
  const { host, port } = config.sftp;
  const elsewhere = rows
    .filter((row) => row.deleted_at === null && (row.sftp_host !== host || row.sftp_port !== port))
    .map((row) => row.sftp_username);
  const strangers = isDiskThere ? jails.filter((name) => !known.has(name)) : [];
  const logins = users.filter((name) => !known.has(name));
  return orOk(
    [
      missing.length > 0 &&
        fail(`there is no jail for ${some(missing)}`, `restore the files to ${paths.jails}; a start makes empty jails`),
      wrong.length > 0 && fail(`wrong owner or mode of the jail of ${some(wrong)}`, RESTART),
      credentials.length > 0 && fail(`wrong credentials of ${some(credentials)}`, RESTART),
      weak.length > 0 &&
        fail(
          `the API now refuses RSA keys such as that of ${some(weak)}`,
          'ask those customers for a key of 2048 bits or more',
        ),
      elsewhere.length > 0 &&
        fail(
          `customers are given another SFTP address than ${host}, port ${port}, for ${some(elsewhere)}`,
          'restart berth: every start follows BERTH_SFTP_HOST and BERTH_SFTP_PORT',
        ),
      strangers.length > 0 &&
        warn(
          `no directory has the jail ${some(strangers)}`,
          'copy the files that you need, then remove them; or restore a newer backup',
        ),
      logins.length > 0 && fail(`can log in, though no directory has that user: ${some(logins)}`, RESTART),
    ],
    `${counted(live.length, 'directory', 'directories')}: ${isDiskThere ? 'jails and credentials match' : 'credentials match'} the database` +
      (changing.size > 0 ? `, ${changing.size} being changed` : ''),
  );
};

/** Whether a key is one that the API refused only later: sshd refuses a short one, but lets anybody in with an exponent of 1. */
function hasWeak(keys: string): boolean {
  return keys.split('\n').some((key) => key.startsWith('ssh-rsa ') && parsePublicKey(key)?.weakness !== undefined);
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

// Checks NSS and PAM by real lookups: berth's users exist only for our sshd, and the machine's accounts only for the
// machine.

/** Our sshd has its own locked entries for these. */
const SHARED = ['root', 'sshd', 'nobody'];

export const checkUsers: Check = async (config) => {
  const apart = isApart(config);
  const [user, ...machine] = await Promise.all([
    liveUser(config),
    apart && visibleAccount(config),
    apart && sharedAccount(config, readFileSync('/etc/passwd', 'utf8')),
    pamService(config),
  ]);
  const accounts = apart
    ? "the machine's accounts are hidden from our sshd"
    : "the accounts of this container are our sshd's and no others";
  if (user === undefined) return orOk(machine, `${accounts}; there is no directory yet to look up`);
  const isShared = machine[1] !== undefined && machine[1] !== false;
  const problems = [
    ...machine,
    ...(await lookUps(config, user)),
    apart && !isShared && (await knownOutside(config, user)),
  ];
  return orOk(problems, `our sshd finds ${user.name}${apart ? ', the machine does not' : ''}; ${accounts}`);
};

/** Whether sshd has accounts of its own. In our container image /etc/passwd is a link to them. */
function isApart(config: Config): boolean {
  const [machine, ours] = ['/etc', join(pathsOf(config).sshd, 'etc')].map((folder) =>
    statSync(join(folder, 'passwd'), { throwIfNoEntry: false }),
  );
  return machine?.ino !== ours?.ino || machine?.dev !== ours?.dev;
}

async function visibleAccount(config: Config): Promise<Finding | undefined> {
  const accounts = readFileSync('/etc/passwd', 'utf8').matchAll(/^([a-z][^:]*):/gm);
  const account = [...accounts].map(([, name = '']) => name).find((name) => !SHARED.includes(name));
  if (account === undefined) return undefined;
  const { status, stderr } = await inNamespace(config, 'getent', 'passwd', account);
  if (status === 2) return undefined; // not found (getent(1))
  if (status === 0)
    return fail(`our sshd knows the machine's account ${account}`, 'berth prepare, then restart berth-sshd');
  return fail(`the namespace of our sshd cannot be entered: ${oneLine(stderr)}`, 'berth prepare');
}

/** Finds an account of the machine with the UID or name of a directory's user: it could read the user's files, or be taken for the user. */
export async function sharedAccount(config: Config, passwd: string): Promise<Finding | undefined> {
  const accounts = [...passwd.matchAll(/^([^:]+):[^:]*:(\d+):/gm)].map(([, name = '', uid]) => ({
    name,
    uid: Number(uid),
  }));
  await using inspection = await inspect(config.database);
  const found = await inspection.db
    .selectFrom('directories')
    .select(['sftp_username as name', 'uid'])
    .where('deleted_at', 'is', null)
    .where((eb) =>
      eb.or([
        eb(
          'sftp_username',
          'in',
          accounts.map(({ name }) => name),
        ),
        eb(
          'uid',
          'in',
          accounts.map(({ uid }) => uid),
        ),
      ]),
    )
    .limit(1)
    .executeTakeFirst();
  const account = accounts.find(({ name, uid }) => name === found?.name || uid === found?.uid);
  if (!found || !account) return undefined;
  const shared = account.name === found.name ? 'name' : `UID ${found.uid}`;
  return fail(
    `the machine's account ${account.name} has the ${shared} of the SFTP user ${found.name}`,
    `give it another: usermod ${account.name === found.name ? '--login NAME' : '--uid UID'} ${account.name}, or userdel ${account.name}`,
  );
}

async function pamService(config: Config): Promise<Finding | undefined> {
  const { stdout } = await inNamespace(config, 'cat', '/etc/pam.d/sshd');
  if (stdout.includes(`${pathsOf(config).sshd}/admit`)) return undefined;
  return fail('our sshd would not run the admission hook (pam.d/sshd)', 'berth prepare');
}

interface User {
  readonly name: string;
  readonly uid: number;
}

/** A user whose directory is not being changed right now. */
async function liveUser(config: Config): Promise<User | undefined> {
  await using inspection = await inspect(config.database);
  return await inspection.db
    .selectFrom('directories')
    .select(['sftp_username as name', 'uid'])
    .where('node', '=', config.node)
    .where('deleted_at', 'is', null)
    .where('id', 'not in', (eb) => eb.selectFrom('unapplied').select('directory_id'))
    .limit(1)
    .executeTakeFirst();
}

async function lookUps(config: Config, { name, uid }: User): Promise<(Finding | false)[]> {
  const [inside, shadow] = await Promise.all([
    inNamespace(config, 'getent', 'passwd', name),
    inNamespace(config, 'getent', 'shadow', name),
  ]);
  const isFound = inside.stdout.startsWith(`${name}:x:${uid}:${uid}:`);
  const hasPassword = shadow.stdout.startsWith(`${name}:`);
  return [
    !isFound && fail(`our sshd does not find the user ${name}`, 'apt-get install libnss-systemd, then restart berth'),
    isFound &&
      !hasPassword &&
      fail(`our sshd finds no password entry for ${name}`, 'restart berth, which writes it again'),
  ];
}

/** By any source of accounts that the machine has: files, systemd, LDAP, a domain. */
async function knownOutside(config: Config, { name, uid }: User): Promise<Finding | false> {
  const [byName, byUid] = await Promise.all([name, String(uid)].map((key) => command('getent', ['passwd', key])));
  if (byName?.status === 0)
    return fail(
      `the machine itself knows the SFTP user ${name}, and so does its own sshd`,
      `remove the mount or link that makes ${pathsOf(config).userdb} visible as /etc/userdb or /run/userdb`,
    );
  return (
    byUid?.status === 0 &&
    fail(
      `the machine's account ${byUid.stdout.split(':')[0]} has the UID ${uid} of the SFTP user ${name}`,
      `give it another; if it comes from a domain, let its IDs end below ${KEYS_ID} (sssd.conf: ldap_idmap_range_max)`,
    )
  );
}
