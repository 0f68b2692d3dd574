/**
 * Flushes files and their names to the disk, so that an announced upload survives a power cut.
 *
 * Syncs run in libuv's thread pool. Enough small files are synced at a time to keep its threads busy, and one large
 * file beside them, which may take seconds. Directories take turns.
 */
import { closeSync, fdatasync, fstatSync, fsync } from 'node:fs';
import { promisify } from 'node:util';
import { isAbsent, openFile, openFolder } from '../../../foundation/base/beneath.ts';
import { errorCode, isFull } from '../../../foundation/base/errors.ts';
import { FairQueue } from '../../../foundation/base/turns.ts';
import { bytesOf, type FilePath, parentOf } from '../file-path.ts';
import { type FileStat, fileStat } from '../record/file-stat.ts';

/**
 * The disk lost data that was written to a file. The kernel may have dropped the data and reports that only once: a
 * later sync of the file succeeds (fsync(2), "EIO").
 */
export class DataLost extends Error {
  override readonly name = 'DataLost';
}

const LARGE = 8 * 1024 * 1024;

const syncData = promisify(fdatasync);
const syncAll = promisify(fsync);

export class FileSyncer {
  /** Whether anything is synced. When it is off (`BERTH_SYNC_UPLOADS=off`), every file counts as synced. */
  readonly #isOn: boolean;
  readonly #small = new FairQueue(16);
  readonly #large = new FairQueue(1);
  /** Syncs of folders that have not begun yet, by path. Later callers share them. */
  readonly #folders = new Map<string, Promise<void>>();

  constructor({ isOn }: { readonly isOn: boolean }) {
    this.#isOn = isOn;
  }

  /**
   * Syncs a file, its name, and the names of the folders above it. Resolves with the file's status, or undefined when
   * there is no file; of a folder only its name and those above it are synced. Rejects when the disk fails: with `DataLost` if data of the file may be lost.
   */
  async sync(root: string, path: FilePath): Promise<FileStat | undefined> {
    try {
      return await this.#syncFile(root, path);
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw error;
    }
  }

  /** Resolves when what was written to an open file of the directory `root` is on the disk. */
  async file(root: string, fd: number, size: number): Promise<void> {
    if (this.#isOn) await (size < LARGE ? this.#small : this.#large).add(root, () => syncData(fd));
  }

  /** Resolves when the names in a folder are on the disk. */
  async folder(root: string, folder: FilePath): Promise<void> {
    if (this.#isOn) await this.#syncFolder(root, folder);
  }

  async #syncFile(root: string, path: FilePath): Promise<FileStat | undefined> {
    const fd = openFile(root, bytesOf(path));
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile() && !stats.isDirectory()) return undefined;
      if (this.#isOn) {
        // The folders may be as new as the file. All are synced at the same time, so that the file system writes them
        // with one commit of its journal.
        const syncs = [...ancestors(path)].map((folder) => this.#syncFolder(root, folder));
        if (stats.isFile()) syncs.push(this.file(root, fd, stats.size).catch(dataLost));
        // Wait for all of them: the descriptor must not be closed while it is in use.
        await Promise.allSettled(syncs);
        await Promise.all(syncs);
      }
      return stats.isFile() ? fileStat(stats) : undefined;
    } finally {
      closeSync(fd);
    }
  }

  #syncFolder(root: string, folder: FilePath): Promise<void> {
    const key = `${root}/${folder}`;
    const shared = this.#folders.get(key);
    if (shared) return shared;
    const sync = async (): Promise<void> => {
      this.#folders.delete(key);
      using opened = openFolder(root, bytesOf(folder));
      await syncAll(opened.fd);
    };
    // Begin later, when the sync is in the map: it removes itself from there.
    const syncing = Promise.resolve().then(() => this.#small.add(root, sync));
    this.#folders.set(key, syncing);
    return syncing;
  }
}

function dataLost(error: unknown): never {
  if (errorCode(error) === 'EIO' || isFull(error)) {
    throw new DataLost('the disk did not store all data that was written to a file', { cause: error });
  }
  throw error;
}

function* ancestors(path: FilePath): Generator<FilePath> {
  for (let folder = parentOf(path); ; folder = parentOf(folder)) {
    yield folder;
    if (folder === '') return;
  }
}
