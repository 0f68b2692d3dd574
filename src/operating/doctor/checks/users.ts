/** Checks NSS and PAM by real lookups: berth's users exist only for our sshd, and the machine's accounts only for the machine. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../../foundation/base/config.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { KEYS_ID, pathsOf } from '../../../machine/sftp/paths.ts';
import { type Check, fail, type Finding, oneLine, orOk } from '../finding.ts';
import { command, inNamespace } from '../processes.ts';

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
