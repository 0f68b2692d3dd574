/**
 * berth's own folder on the jails' file system, closed to users: files on their way into a directory, and out of it. What
 * is complete here gets its place by one rename, and what is taken here can no longer be opened by anybody.
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
import { components, type Folder, openEntry, openFolder, placeIn } from '../base/beneath.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import { errorCode } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { bytesOf, type FilePath, type FilesRoot, parentOf, pathOf } from '../uploads/file-path.ts';

const TAKEN = 'taken-';
const COMING = 'coming-';

/** The modes that sshd would give with its usual umask. */
export const FILE_MODE = 0o644;
const FOLDER_MODE = 0o755;

/** The owner and the place of a directory's files. */
export interface Owner {
  readonly root: string;
  readonly uid: number;
}

export interface Transit {
  readonly folder: string;
  /** A free name for what is to come. */
  coming(): string;
  /** Where the file of an upload is taken. */
  taken(uploadId: string): string;
  /** Opens a folder of the directory; it and those above it are made where they are missing, as the user's own. */
  openOrMake(owner: Owner, path: FilePath): Folder;
  /** Gives what was taken its name back, unless another file has that by now. */
  putBack(owner: Owner, path: FilePath, taken: string): void;
}

export function createTransit(folder: string): Transit {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const coming = (): string => join(folder, COMING + randomUUID());

  /** Built out of sight, so that no crash leaves a folder in which its user may not write. */
  function makeEntry(parent: Folder, name: Buffer, uid: number): void {
    const fresh = coming();
    mkdirSync(fresh, FOLDER_MODE);
    try {
      chmodSync(fresh, FOLDER_MODE);
      chownSync(fresh, uid, uid);
      renameSync(fresh, placeIn(parent, name));
    } catch (error) {
      rmdirSync(fresh);
      // Somebody else has made it meanwhile.
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
    taken: (uploadId) => join(folder, TAKEN + uploadId),
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

/** The last component of a path, as the kernel takes it. */
export function lastOf(path: FilePath): Buffer {
  return bytesOf(path.slice(path.lastIndexOf('/') + 1));
}

export interface RecoveryOptions {
  readonly database: Pick<Database, 'db' | 'reads'>;
  readonly node: string;
  readonly filesRoot: FilesRoot;
  readonly log: Log;
  /** Moves the file of an upload to the quarantine, if it belongs there; false when it does not. */
  readonly quarantined?: ((uploadId: string, file: string) => Promise<boolean>) | undefined;
}

/**
 * Cleans up after a crash: an arriving file goes. A file that was taken gets its name back, as if nobody had asked for its
 * removal, unless that was committed. A file committed to the quarantine goes there.
 */
export async function recoverTransit(
  transit: Transit,
  { database, node, filesRoot, log, quarantined }: RecoveryOptions,
): Promise<void> {
  for (const name of readdirSync(transit.folder)) {
    const left = join(transit.folder, name);
    const id = name.startsWith(TAKEN) ? name.slice(TAKEN.length) : undefined;
    const row = id === undefined ? undefined : await rowOf(database.reads, node, id);
    try {
      const { ino, nlink } = lstatSync(left);
      // A file that already has its name in the directory has arrived.
      if (id === undefined && nlink === 1) await neverCame(database, node, ino);
      if (row) transit.putBack({ root: filesRoot(row.sftp_username), uid: row.uid }, pathOf(row.path), left);
      else if (id === undefined || !(await quarantined?.(id, left))) rmSync(left, { recursive: true, force: true });
    } catch (error) {
      log.error({ err: error, file: left }, 'a file whose removal was cut off cannot be put back; it stays here');
    }
  }
}

/** A link that works once is not used by a file that never came. */
async function neverCame({ db }: Pick<Database, 'db'>, node: string, inode: number): Promise<void> {
  const here = db.selectFrom('directories').select('id').where('node', '=', node);
  for (const table of ['placements', 'link_uses'] as const)
    await db.deleteFrom(table).where('inode', '=', inode).where('directory_id', 'in', here).execute();
}

function rowOf(reads: Kysely<Tables>, node: string, uploadId: string) {
  return reads
    .selectFrom('files')
    .innerJoin('directories', 'directories.id', 'files.directory_id')
    .select(['path', 'sftp_username', 'uid'])
    .where('files.id', '=', uploadId)
    .where('node', '=', node)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}
