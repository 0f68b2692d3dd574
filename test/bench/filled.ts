/** Directories and files in any number, put into the database and on the disk past the API: only the outcome matters. */
import { closeSync, fchownSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import type { Config } from '../../src/config.ts';
import { openDatabase } from '../../src/db/open.ts';
import { FIRST_UID } from '../../src/directories/create.ts';
import { createLog } from '../../src/log.ts';
import { createDirectoryHost } from '../../src/sftp/host.ts';
import { pathsOf } from '../../src/sftp/paths.ts';
import { PLAIN } from '../support/directory-rows.ts';

interface Filled {
  readonly id: string;
  readonly sftp_username: string;
  readonly uid: number;
}

export interface Filling {
  readonly directories: number;
  readonly filesEach: number;
}

/** Fills a database that has an account, while berth is stopped. Every directory has the password hash `*`. */
export async function fill(config: Config, accountId: string, { directories, filesEach }: Filling): Promise<void> {
  await fillDirectories(config, accountId, directories);
  if (filesEach > 0) fillFiles(config, filesEach);
}

async function fillDirectories(config: Config, accountId: string, directories: number): Promise<void> {
  mkdirSync(config.stateDir, { recursive: true });
  const { db, close } = await openDatabase(config.database);
  const paths = pathsOf(config);
  const sockets = { currentSocket: () => undefined, moreSockets: () => Promise.reject(new Error('nobody listens')) };
  const host = createDirectoryHost({ paths, log: createLog('error'), sockets });
  const first = FIRST_UID + 1_000_000;
  for (let start = 0; start < directories; start += 1000) {
    const rows = Array.from({ length: Math.min(1000, directories - start) }, (_, index) => {
      const i = start + index;
      return { id: randomUUID(), sftp_username: `bench-${i}`, uid: first + i, inserted_at: i, updated_at: i };
    });
    const rest = { ...PLAIN, account_id: accountId, name: 'Bench', slug: 'bench' };
    await db.transaction().execute(async (tx) => {
      const principals = rows.map(({ uid, sftp_username: username }) => ({ uid, username }));
      await tx.insertInto('principals').values(principals).execute();
      await tx
        .insertInto('directories')
        .values(rows.map((row) => ({ ...row, ...rest })))
        .execute();
    });
    for (const row of rows) {
      const settings = { ...PLAIN, public_key: null, quota_bytes: null, expires_at: null, node: '', version: 0 };
      await host.apply({ ...row, ...settings });
    }
  }
  await host.close();
  await close();
}

/** Puts that many files into every directory, while berth is stopped. */
export function fillFiles(config: Config, filesEach: number): void {
  const sqlite = new Sqlite(config.databaseFile);
  sqlite.pragma('synchronous = off');
  const paths = pathsOf(config);
  const directories = sqlite.prepare<[number], Filled>(
    'select id, sftp_username, uid from directories where uid > ? order by uid limit 1000',
  );
  const file = sqlite.prepare(`
    insert into files (id, directory_id, path, size_bytes, state, uploaded_at, inode, mtime, source)
    values (?, ?, ?, 0, 'uploaded', ?, ?, ?, 'log')`);
  for (let after: number | undefined = filesEach > 0 ? 0 : undefined; after !== undefined;) {
    const some: Filled[] = directories.all(after);
    sqlite.exec('begin');
    for (const { id, sftp_username: username, uid } of some) {
      for (let n = 0; n < filesEach; n += 1) {
        const fd = openSync(`${paths.jail(username)}/files/file-${n}`, 'wx');
        fchownSync(fd, uid, uid);
        const { ino, mtimeMs } = fstatSync(fd);
        closeSync(fd);
        file.run(randomUUID(), id, Buffer.from(`file-${n}`), n, ino, Math.floor(mtimeMs * 1000));
      }
    }
    sqlite.exec('commit');
    after = some.at(-1)?.uid;
  }
  sqlite.close();
}
