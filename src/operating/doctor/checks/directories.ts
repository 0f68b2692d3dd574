/** Compares rows and disk: each directory's jail and credentials, and anything on the disk without a row. */
import { existsSync, readdirSync } from 'node:fs';
import { inspect } from '../../../foundation/db/inspect.ts';
import { HOSTED } from '../../../rules/directories/host.ts';
import { parsePublicKey } from '../../../rules/directories/public-key.ts';
import { areCredentialsRight, userOfRecord } from '../../../machine/sftp/credentials.ts';
import { isJailRight } from '../../../machine/sftp/jail.ts';
import { isJailDiskThere } from '../../../machine/sftp/jail-disk.ts';
import { CORNER, pathsOf } from '../../../machine/sftp/paths.ts';
import { type Check, fail, orOk, some, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/terminal.ts';

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
