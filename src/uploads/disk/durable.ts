/**
 * Puts files and their names on the disk, so that an upload that was announced survives a power cut. In the thread pool:
 * small files as many at a time as keep its threads busy while the main thread is, and one large one beside them, which
 * may take seconds.
 */
import { closeSync, fdatasync, fstatSync, fsync } from 'node:fs';
import { promisify } from 'node:util';
import PQueue from 'p-queue';
import { isAbsent, openFile, openFolder } from '../../beneath.ts';
import { bytesOf, type FilePath, parentOf } from '../file-path.ts';
import { type FileStat, fileStat } from '../record/file-stat.ts';

const LARGE = 8 * 1024 * 1024;

const syncData = promisify(fdatasync);
const syncAll = promisify(fsync);

export interface Durable {
  /**
   * Resolves with the file that is on the disk now, its name and those of the folders above it included; with undefined
   * when there is none. Rejects when the disk fails.
   */
  sync(root: string, path: FilePath): Promise<FileStat | undefined>;
}

export function createDurable(): Durable {
  const small = new PQueue({ concurrency: 16 });
  const large = new PQueue({ concurrency: 1 });
  /** Syncs of folders that have not begun: who comes until then shares them. */
  const folders = new Map<string, Promise<void>>();

  function syncFolder(root: string, folder: FilePath): Promise<void> {
    const key = `${root}/${folder}`;
    const shared = folders.get(key);
    if (shared) return shared;
    const sync = async (): Promise<void> => {
      folders.delete(key);
      using opened = openFolder(root, bytesOf(folder));
      await syncAll(opened.fd);
    };
    // Not at once: it must not begin before it is known.
    const syncing = Promise.resolve().then(() => small.add(sync));
    folders.set(key, syncing);
    return syncing;
  }

  async function syncFile(root: string, path: FilePath): Promise<FileStat | undefined> {
    const fd = openFile(root, bytesOf(path));
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) return undefined;
      // The folders may be as new as the file. All at once: the file system then writes them with one commit of its journal.
      const syncs = [
        (stats.size < LARGE ? small : large).add(() => syncData(fd)),
        ...[...ancestors(path)].map((folder) => syncFolder(root, folder)),
      ];
      // Until none of them uses the descriptor any more.
      await Promise.allSettled(syncs);
      await Promise.all(syncs);
      return fileStat(stats);
    } finally {
      closeSync(fd);
    }
  }

  return {
    async sync(root, path) {
      try {
        return await syncFile(root, path);
      } catch (error) {
        if (isAbsent(error)) return undefined;
        throw error;
      }
    },
  };
}

/** For those who want it otherwise (`BERTH_SYNC_UPLOADS=off`): nothing is synced, and all counts as if it were. */
export const NOT_DURABLE: Durable = {
  async sync(root, path) {
    try {
      const fd = openFile(root, bytesOf(path));
      try {
        return fileStat(fstatSync(fd));
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw error;
    }
  },
};

function* ancestors(path: FilePath): Generator<FilePath> {
  for (let folder = parentOf(path); ; folder = parentOf(folder)) {
    yield folder;
    if (folder === '') return;
  }
}
