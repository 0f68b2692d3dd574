/**
 * Directories and files in any number, written directly to the database and the disk, because only the result matters.
 */
import { closeSync, fchownSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import type { Insertable } from 'kysely';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { FIRST_UID } from '../../src/rules/directories/create.ts';
import type { FilesTable } from '../../src/foundation/db/schema.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createDirectoryHost } from '../../src/machine/sftp/host.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { onPostgres, psql } from '../support/postgres.ts';
import { PLAIN } from '../support/directory-rows.ts';

export interface Filling {
  readonly directories: number;
  readonly filesEach: number;
}

/** Fills a database that has an account, while berth is stopped. Every directory has the password hash `*`. */
export async function fill(config: Config, accountId: string, { directories, filesEach }: Filling): Promise<void> {
  await fillDirectories(config, accountId, directories);
  if (filesEach > 0) await fillFiles(config, filesEach);
}

/** From now on PostgreSQL logs statements that take longer than any of berth's may. */
export function tellSlowStatements({ database }: Config): void {
  if (!onPostgres) return;
  const name = /@\/(\w+)/.exec(database)?.[1] ?? '';
  psql(database, `alter database ${name} set log_min_duration_statement = 20`);
}

async function fillDirectories(config: Config, accountId: string, directories: number): Promise<void> {
  mkdirSync(config.stateDir, { recursive: true });
  const { db, close } = await openDatabase(config.database);
  const paths = pathsOf(config);
  const sockets = { socketsFor: () => [] };
  const host = createDirectoryHost({ paths, log: createLog('error'), sockets });
  const first = FIRST_UID + 1_000_000;
  for (let start = 0; start < directories; start += 1000) {
    const rows = Array.from({ length: Math.min(1000, directories - start) }, (_, index) => {
      const i = start + index;
      return { id: randomUUID(), sftp_username: `bench-${i}`, uid: first + i, inserted_at: i, updated_at: i };
    });
    const rest = { ...PLAIN, account_id: accountId, name: 'Bench', slug: 'bench', node: config.node };
    await db.transaction().execute(async (tx) => {
      const principals = rows.map(({ uid, sftp_username: username }) => ({ uid, username }));
      await tx.insertInto('principals').values(principals).execute();
      await tx
        .insertInto('directories')
        .values(rows.map((row) => ({ ...row, ...rest })))
        .execute();
    });
    for (const row of rows) {
      const settings = {
        ...PLAIN,
        node: config.node,
        version: 0,
      };
      await host.apply({ ...row, ...settings });
    }
  }
  await host.close();
  await close();
}

/** Rows inserted by one statement, few enough for the limit of parameters of either database. */
const ROWS = 1000;

/** Puts that many files into every directory, while berth is stopped. */
export async function fillFiles(config: Config, filesEach: number): Promise<void> {
  const { db, close } = await openDatabase(config.database);
  const paths = pathsOf(config);
  const directories = await db
    .selectFrom('directories')
    .select(['id', 'sftp_username', 'uid'])
    .orderBy('uid')
    .execute();
  let rows: Insertable<FilesTable>[] = [];
  const put = async (): Promise<void> => {
    await db.insertInto('files').values(rows).execute();
    rows = [];
  };
  for (const { id, sftp_username: username, uid } of directories) {
    for (let n = 0; n < filesEach; n += 1) {
      const fd = openSync(`${paths.jail(username)}/files/file-${n}`, 'wx');
      fchownSync(fd, uid, uid);
      const { ino, mtimeMs, ctimeMs } = fstatSync(fd);
      closeSync(fd);
      rows.push({
        id: randomUUID(),
        directory_id: id,
        path: Buffer.from(`file-${n}`),
        size_bytes: 0,
        state: 'uploaded',
        uploaded_at: n,
        inode: ino,
        mtime: Math.floor(mtimeMs * 1000),
        ctime: Math.floor(ctimeMs * 1000),
        returns_to: null,
        check_failure: null,
        source: 'log',
        session_pid: null,
      });
      if (rows.length === ROWS) await put();
    }
  }
  if (rows.length > 0) await put();
  await close();
}
