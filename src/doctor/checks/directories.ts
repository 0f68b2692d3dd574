/** Rows against the disk: each directory's jail and credentials, and what lies there that no row explains. */
import { existsSync, readdirSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { lookAt } from '../../db/look.ts';
import { HOSTED, type HostedDirectory } from '../../directories/host.ts';
import { areCredentialsRight, userOfRecord } from '../../sftp/credentials.ts';
import { isJailRight } from '../../sftp/jail.ts';
import { CORNER, type Paths, pathsOf } from '../../sftp/paths.ts';
import { type Check, fail, type Finding, orOk, some, warn } from '../finding.ts';

const MEND = 'restart berth: it brings this into order at every start';

export function directoriesCheck(config: Config): Check {
  return {
    name: 'directories',
    async run() {
      const paths = pathsOf(config);
      // Listed first: a row is committed before its jail appears.
      const jails = namesIn(paths.jails).filter((name) => name !== CORNER && name !== 'lost+found');
      const users = new Set(namesIn(paths.userdb).flatMap((file) => userOfRecord(file) ?? []));
      await using look = lookAt(config.databaseFile);
      const rows = await look.db
        .selectFrom('directories')
        .select([...HOSTED, 'deleted_at'])
        .execute();
      const unapplied = await look.db.selectFrom('unapplied').select('directory_id').execute();
      const behind = new Set(unapplied.map(({ directory_id: id }) => id));
      const live = rows.filter((row) => row.deleted_at === null && !behind.has(row.id));
      const known = new Set(rows.map((row) => row.sftp_username));
      const problems = [...ofRows(paths, live), ...ofDisk({ jails, users, known })];
      const changing = behind.size > 0 ? `, ${behind.size} being changed` : '';
      return orOk(problems, `${live.length} directories: jails and credentials are as their rows say${changing}`);
    },
  };
}

function ofRows(paths: Paths, rows: readonly HostedDirectory[]): Finding[] {
  const without = rows.filter((row) => !existsSync(paths.jail(row.sftp_username)));
  const there = rows.filter((row) => !without.includes(row));
  const jail = there.filter((row) => !isJailRight(paths, row));
  const credentials = rows.filter((row) => !areCredentialsRight(paths, row));
  const names = (list: readonly HostedDirectory[]): string => some(list.map((row) => row.sftp_username));
  return [
    ...(without.length > 0
      ? [
          fail(
            `${without.length} directories have no jail: ${names(without)}`,
            `bring the files back to ${paths.jails}; a start makes empty jails`,
          ),
        ]
      : []),
    ...(jail.length > 0 ? [fail(`${jail.length} jails have a wrong owner or mode: ${names(jail)}`, MEND)] : []),
    ...(credentials.length > 0
      ? [fail(`${credentials.length} users have wrong credentials: ${names(credentials)}`, MEND)]
      : []),
  ];
}

interface Disk {
  readonly jails: readonly string[];
  readonly users: ReadonlySet<string>;
  readonly known: ReadonlySet<string>;
}

function ofDisk({ jails, users, known }: Disk): Finding[] {
  const strangers = jails.filter((name) => !known.has(name));
  const logins = [...users].filter((name) => !known.has(name));
  return [
    ...(strangers.length > 0
      ? [
          warn(
            `${strangers.length} jails belong to no directory: ${some(strangers)}`,
            'copy what is needed, then remove them; or restore a newer backup',
          ),
        ]
      : []),
    ...(logins.length > 0
      ? [fail(`${logins.length} users that no directory has can log in: ${some(logins)}`, MEND)]
      : []),
  ];
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
