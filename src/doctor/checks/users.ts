/** NSS and PAM wiring, by real look-ups: users of berth exist for our sshd only, the machine's for the machine only. */
import { readFileSync } from 'node:fs';
import { pathsOf } from '../../sftp/paths.ts';
import { lookAt } from '../../db/look.ts';
import type { Config } from '../../config.ts';
import { command } from '../command.ts';
import { type Check, fail, type Finding, orOk } from '../finding.ts';
import { inNamespace } from './sshd-files.ts';

/** They have locked entries of their own for our sshd. */
const SHARED = ['root', 'sshd', 'nobody'];

export function usersCheck(config: Config): Check {
  return {
    name: 'users',
    async run() {
      const [machine, pam, own] = await Promise.all([machineAccount(config), pamService(config), berthUser(config)]);
      return orOk([...machine, ...pam, ...own.problems], own.text);
    },
  };
}

async function machineAccount(config: Config): Promise<Finding[]> {
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':')[0] ?? '');
  const account = accounts.find((name) => /^[a-z]/.test(name) && !SHARED.includes(name));
  if (account === undefined) return [];
  const { status, stderr } = await inNamespace(config, 'getent', 'passwd', account);
  if (status === 2) return []; // getent(1): not found
  if (status === 0)
    return [fail(`our sshd knows the machine's account ${account}`, 'berth prepare, then restart berth-sshd')];
  return [
    fail(`the namespace of our sshd cannot be entered: ${stderr.trim().split('\n').join('; ')}`, 'berth prepare'),
  ];
}

async function pamService(config: Config): Promise<Finding[]> {
  const { stdout } = await inNamespace(config, 'cat', '/etc/pam.d/sshd');
  if (stdout.includes(`${pathsOf(config).sshd}/admit`)) return [];
  return [fail('our sshd would not ask the admission hook (pam.d/sshd)', 'berth prepare')];
}

async function berthUser(config: Config): Promise<{ problems: Finding[]; text: string }> {
  await using look = lookAt(config.databaseFile);
  const row = await look.db
    .selectFrom('directories')
    .select(['sftp_username', 'uid'])
    .where('deleted_at', 'is', null)
    .where('id', 'not in', (eb) => eb.selectFrom('unapplied').select('directory_id'))
    .limit(1)
    .executeTakeFirst();
  if (!row)
    return {
      problems: [],
      text: "the machine's accounts are hidden from our sshd; there is no directory yet to look up",
    };
  const { sftp_username: name, uid } = row;
  const [inside, shadow, outside] = await Promise.all([
    inNamespace(config, 'getent', 'passwd', name),
    inNamespace(config, 'getent', 'shadow', name),
    command('getent', ['passwd', name]),
  ]);
  const problems: Finding[] = [];
  if (!inside.stdout.startsWith(`${name}:x:${uid}:${uid}:`)) {
    problems.push(
      fail(`our sshd does not find the user ${name}`, 'apt-get install libnss-systemd, then restart berth'),
    );
  } else if (!shadow.stdout.startsWith(`${name}:`)) {
    problems.push(
      fail(`our sshd finds no password entry of ${name}`, 'restart berth: it writes the user records anew'),
    );
  }
  if (outside.status === 0) {
    problems.push(
      fail(
        `the machine itself knows the SFTP user ${name}, its own sshd too`,
        `remove what makes ${pathsOf(config).userdb} visible as /etc/userdb or /run/userdb`,
      ),
    );
  }
  return {
    problems,
    text: `our sshd finds ${name}, the machine does not; the machine's accounts are hidden from it`,
  };
}
