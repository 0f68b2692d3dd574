/**
 * berth's own folder on the jails' file system, which users cannot open. It has files on their way into a directory, which one
 * rename puts into place once they are complete, and files on their way out, which nobody can open any more.
 */
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import {
  components,
  type Folder,
  lstatBeneath,
  openEntry,
  openFolder,
  placeIn,
} from '../../foundation/base/beneath.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import { makeAgain } from '../../foundation/base/files.ts';
import { bytesOf, type FilePath, type FilesRoot, jailFiles, parentOf, pathOf } from '../uploads/file-path.ts';
import { fileStat, isSame } from '../uploads/record/file-stat.ts';
import type { Ground } from '../../foundation/context.ts';

const TAKEN = 'taken-';
const COMING = 'coming-';

/** The modes that sshd would give with its usual umask. */
export const FILE_MODE = 0o644;
const FOLDER_MODE = 0o755;

/** Where a directory's files are, and who owns them. */
export interface Owner {
  readonly root: string;
  readonly uid: number;
}

export interface Transit {
  readonly folder: string;
  /** A free name for a file on its way in. */
  coming(): string;
  /** The name for an upload's file on its way out. */
  taken(uploadId: string): string;
  /** The uploads whose files are on their way out. */
  leaving(): string[];
  /** Opens a folder of the directory. If it or a folder above it is missing, it is made, and belongs to the user. */
  openOrMake(owner: Owner, path: FilePath): Folder;
  /** Gives a file its name back, or removes it if another file has that name by now. */
  putBack(owner: Owner, path: FilePath, taken: string): void;
}

export function createTransit(folder: string): Transit {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const placed = (name: string): string => {
    makeAgain(folder);
    return join(folder, name);
  };
  const coming = (): string => placed(COMING + randomUUID());

  /** Makes a folder here and renames it into place, so that no crash leaves one in which its user may not write. */
  function makeEntry(parent: Folder, name: Buffer, uid: number): void {
    const fresh = coming();
    mkdirSync(fresh, FOLDER_MODE);
    try {
      chmodSync(fresh, FOLDER_MODE);
      chownSync(fresh, uid, uid);
      renameSync(fresh, placeIn(parent, name));
    } catch (error) {
      rmdirSync(fresh);
      // Somebody else has made this folder meanwhile.
      if (errorCode(error) !== 'ENOTEMPTY') throw error;
    }
  }

  function enter(parent: Folder, name: Buffer, uid: number): Folder {
    try {
      return openEntry(parent, name);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
    makeEntry(parent, name, uid);
    return openEntry(parent, name);
  }

  function openOrMake({ root, uid }: Owner, path: FilePath): Folder {
    let last = openFolder(root);
    for (const name of components(bytesOf(path))) {
      using parent = last;
      last = enter(parent, name, uid);
    }
    return last;
  }

  return {
    folder,
    coming,
    taken: (uploadId) => placed(TAKEN + uploadId),
    leaving: () =>
      readdirSync(placed(''))
        .filter((name) => name.startsWith(TAKEN))
        .map((name) => name.slice(TAKEN.length)),
    openOrMake,
    putBack(owner, path, taken) {
      using parent = openOrMake(owner, parentOf(path));
      try {
        linkSync(taken, placeIn(parent, lastOf(path)));
      } catch (error) {
        if (errorCode(error) !== 'EEXIST') throw error;
      }
      unlinkSync(taken);
    },
  };
}

/** The last component of a path, in bytes. */
export function lastOf(path: FilePath): Buffer {
  return bytesOf(path.slice(path.lastIndexOf('/') + 1));
}

/**
 * Opens the folder, which is on the jails' file system, and cleans up after a crash. Files on their way in are removed. A file on
 * its way out gets its name back, unless its removal was committed. A file whose rejection was committed moves to the quarantine.
 * Call it before uploads follows the directories.
 * @param quarantined moves an upload's file to the quarantine if it belongs there. Returns false if it does not.
 */
export async function openTransit(
  { config, database, log }: Ground,
  folder: string,
  quarantined: (uploadId: string, file: string) => Promise<boolean>,
): Promise<Transit> {
  const { node, jailDir } = config;
  const filesRoot = jailFiles(jailDir);
  const transit = createTransit(folder);
  for (const name of readdirSync(folder)) {
    const left = join(folder, name);
    const id = name.startsWith(TAKEN) ? name.slice(TAKEN.length) : undefined;
    const row = id === undefined ? undefined : await rowOf(database.reads, node, id);
    try {
      const { ino, nlink } = lstatSync(left);
      // A file with a second link already has its name in the directory, so it has arrived.
      if (id === undefined && nlink === 1) await neverCame(database, node, ino);
      if (row) await putBackFor(row, transit, left, { database, filesRoot });
      else if (id === undefined || !(await quarantined(id, left))) rmSync(left, { recursive: true, force: true });
    } catch (error) {
      log.error({ err: error, file: left }, 'a file whose removal was cut off cannot be put back; it stays here');
    }
  }
  return transit;
}

/**
 * Gives a file its name back. That changes its ctime, so the row of a removed file takes the new one: nothing else has happened to the
 * file.
 */
async function putBackFor(
  row: NonNullable<Awaited<ReturnType<typeof rowOf>>>,
  transit: Transit,
  left: string,
  { database, filesRoot }: { readonly database: Database; readonly filesRoot: FilesRoot },
): Promise<void> {
  const root = filesRoot(row.sftp_username);
  const isUnwritten = isSame(row, fileStat(lstatSync(left)));
  transit.putBack({ root, uid: row.uid }, pathOf(row.path), left);
  const stats = lstatBeneath(root, row.path);
  if (row.state !== 'removed' || !isUnwritten || !stats || !isSame(row, fileStat(stats))) return;
  const { ctime } = fileStat(stats);
  await database.db.updateTable('files').set({ ctime }).where('id', '=', row.id).execute();
}

/** Forgets a file that never arrived. A link that it used up works again. */
async function neverCame({ db }: Database, node: string, inode: number): Promise<void> {
  const here = db.selectFrom('directories').select('id').where('node', '=', node);
  await db.transaction().execute(async (tx) => {
    const gone = await tx
      .deleteFrom('placements')
      .where('inode', '=', inode)
      .where('recorded', '=', 0)
      .where('directory_id', 'in', here)
      .returning('link_id')
      .execute();
    for (const { link_id } of gone)
      if (link_id !== null) await tx.updateTable('links').set({ used_at: null }).where('id', '=', link_id).execute();
  });
}

function rowOf(reads: Kysely<Tables>, node: string, uploadId: string) {
  return reads
    .selectFrom('files')
    .innerJoin('directories', 'directories.id', 'files.directory_id')
    .select(['files.id', 'path', 'state', 'inode', 'mtime', 'size_bytes', 'sftp_username', 'uid'])
    .where('files.id', '=', uploadId)
    .where('node', '=', node)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}
