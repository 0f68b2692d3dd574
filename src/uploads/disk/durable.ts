/**
 * Puts files and their names on the disk, so that an upload that was announced survives a power cut. In the thread pool:
 * small files as many at a time as keep its threads busy while the main thread is, and one large one beside them, which
 * may take seconds.
 */
import { closeSync, fdatasync, fstatSync, fsync } from 'node:fs';
import { promisify } from 'node:util';
import PQueue from 'p-queue';
import { isAbsent, openFile, openFolder } from '../../beneath.ts';
import { errorCode } from '../../errors.ts';
import { bytesOf, type FilePath, parentOf } from '../file-path.ts';
import { type FileStat, fileStat } from '../record/file-stat.ts';

/**
 * The disk did not take what was written to a file. The kernel may have thrown it away and says so only once: a later sync of that
 * file succeeds (fsync(2), "EIO").
 */
export class DataLost extends Error {
  override readonly name = 'DataLost';
}

const LARGE = 8 * 1024 * 1024;

const syncData = promisify(fdatasync);
const syncAll = promisify(fsync);

export class Durable {
  /** Off (`BERTH_SYNC_UPLOADS=off`), nothing is synced, and all counts as if it were. */
  readonly #isOn: boolean;
  readonly #small = new PQueue({ concurrency: 16 });
  readonly #large = new PQueue({ concurrency: 1 });
  /** Syncs of folders that have not begun, by path: later callers share them until then. */
  readonly #folders = new Map<string, Promise<void>>();

  constructor({ isOn }: { readonly isOn: boolean }) {
    this.#isOn = isOn;
  }

  /**
   * Resolves with the file that is on the disk now, its name and those of the folders above it included; with undefined
   * when there is none. Rejects when the disk fails: with `DataLost` when that file may have lost what was written to it.
   */
  async sync(root: string, path: FilePath): Promise<FileStat | undefined> {
    try {
      return await this.#syncFile(root, path);
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw error;
    }
  }

  /** Resolves when what was written to an open file is on the disk. */
  async file(fd: number, size: number): Promise<void> {
    if (this.#isOn) await (size < LARGE ? this.#small : this.#large).add(() => syncData(fd));
  }

  /** Resolves when the names in a folder are on the disk. */
  async folder(root: string, folder: FilePath): Promise<void> {
    if (this.#isOn) await this.#syncFolder(root, folder);
  }

  async #syncFile(root: string, path: FilePath): Promise<FileStat | undefined> {
    const fd = openFile(root, bytesOf(path));
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) return undefined;
      if (this.#isOn) {
        // The folders may be as new as the file. At once: the file system then writes all with one commit of its journal.
        const above = [...ancestors(path)].map((folder) => this.#syncFolder(root, folder));
        const syncs = [this.file(fd, stats.size).catch(dataLost), ...above];
        // Until none of them uses the descriptor any more.
        await Promise.allSettled(syncs);
        await Promise.all(syncs);
      }
      return fileStat(stats);
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
    // Not at once: it must not begin before it is known.
    const syncing = Promise.resolve().then(() => this.#small.add(sync));
    this.#folders.set(key, syncing);
    return syncing;
  }
}

function dataLost(error: unknown): never {
  if (['EIO', 'ENOSPC', 'EDQUOT'].includes(errorCode(error) ?? '')) {
    throw new DataLost('the disk did not take what was written to a file', { cause: error });
  }
  throw error;
}

function* ancestors(path: FilePath): Generator<FilePath> {
  for (let folder = parentOf(path); ; folder = parentOf(folder)) {
    yield folder;
    if (folder === '') return;
  }
}
