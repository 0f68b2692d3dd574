/**
 * Compares all files of a directory with their rows, and reports files that differ or are missing. Opens folders
 * component by component, so that nothing that a user does meanwhile leads the scan elsewhere.
 *
 * Promise: the event loop does not wait for the disk. Every call to it runs in libuv's pool, a few at a time, since syncs
 * of uploads wait behind them.
 */
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import {
  enterEntry,
  enterFolder,
  entriesOf,
  isAbsent,
  statusBeneath,
  statusOf,
} from '../../../foundation/base/beneath.ts';
import { yielder } from '../../../foundation/base/event-loop.ts';
import type { FilesTable } from '../../../foundation/db/schema.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { fileStat, isUnchanged, type RecordedStat } from '../record/file-stat.ts';

/** How many rows are read at once; this takes some 2 ms. */
const PAGE = 500;

/** How many rows of a directory a scan holds in memory at most. */
const EXPECTED = 50_000;

/** How many files are looked at at once. */
const AT_ONCE = 16;

/** How deep folders may be nested. Each level costs an open file. Deeper folders are reported. */
const DEPTH_LIMIT = 400;

/** A file as its row has it. */
export type RecordedFile = RecordedStat & Pick<FilesTable, 'path'>;

export interface ScanOptions {
  readonly root: string;
  /** Recorded files of the directory after a path, in a fixed order. An empty path means from the start. */
  filesAfter(after: Buffer, limit: number): Promise<RecordedFile[]>;
  /** A file that differs from its row. */
  differs(path: FilePath): Promise<void>;
  /** A recorded file that is missing. */
  missing(path: FilePath): Promise<void>;
  /** A folder is nested too deeply to be scanned. */
  tooDeep(): void;
  readonly signal: AbortSignal;
}

/** Scans a directory. Returns how many folders it has. */
export async function scanDirectory(options: ScanOptions): Promise<number> {
  const { root, signal } = options;
  const expected = await expectedFiles(options);
  const folders = await walkFiles(root, {
    signal,
    tooDeep: options.tooDeep,
    visit: (path, stats) => (expected.takeSame(path, stats) ? undefined : options.differs(path)),
  });
  const check = async (path: Buffer): Promise<void> => {
    if (!(await statusBeneath(root, path))?.isFile()) await options.missing(pathOf(path));
  };
  await inLots(expected.left(), signal, (path) => check(bytesOf(path)));
  for (let after = expected.end; after !== undefined && !signal.aborted;) {
    const rows = await options.filesAfter(after, PAGE);
    await inLots(rows, signal, ({ path }) => check(path));
    after = rows.length < PAGE ? undefined : rows.at(-1)?.path;
  }
  return folders;
}

/** Handles a few items at a time. */
async function inLots<T>(
  items: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal,
  handle: (item: T) => Promise<void>,
): Promise<void> {
  let lot: T[] = [];
  const handleLot = async (): Promise<void> => {
    const handled = lot.map(handle);
    lot = [];
    // Wait for all of them: the folder must not be closed while it is in use.
    await Promise.allSettled(handled);
    await Promise.all(handled);
  };
  for await (const item of items) {
    if (signal.aborted) return;
    if (lot.push(item) === AT_ONCE) await handleLot();
  }
  await handleLot();
}

/** The recorded files of a directory. When there are very many, only the first of them. */
async function expectedFiles({ filesAfter, signal }: ScanOptions) {
  const rows = new Map<FilePath, RecordedFile>();
  const pause = yielder();
  let end: Buffer | undefined = Buffer.alloc(0);
  while (end !== undefined && rows.size < EXPECTED && !signal.aborted) {
    await pause();
    const page: RecordedFile[] = await filesAfter(end, PAGE);
    for (const row of page) rows.set(pathOf(row.path), row);
    end = page.length < PAGE ? undefined : page.at(-1)?.path;
  }
  return {
    /** Whether the file is the same as in its row. */
    takeSame(path: FilePath, stats: Stats): boolean {
      const row = rows.get(path);
      rows.delete(path);
      // A row from a restored backup has a negative inode and does not know its file yet.
      return row !== undefined && isUnchanged(row, fileStat(stats));
    },
    /** Rows whose files were not met. */
    left: () => rows.keys(),
    /** The path after which further rows follow; undefined when these are all. */
    end,
  };
}

interface WalkOptions {
  readonly signal: AbortSignal;
  /** Called for each file. The walk waits for the promise, if any. */
  visit(path: FilePath, stats: Stats): Promise<void> | undefined;
  tooDeep(): void;
}

/** Visits every regular file, except for those that vanish meanwhile. Returns how many folders there are. */
async function walkFiles(root: string, { signal, visit, tooDeep }: WalkOptions): Promise<number> {
  let folders = 0;

  async function walk(folder: FileHandle, prefix: FilePath, depth: number): Promise<void> {
    const below: Buffer[] = [];
    await inLots(entriesOf(folder), signal, async ({ name, kind }) => {
      if (kind === 'folder') below.push(name);
      const stats = kind === 'file' ? await statusOf(folder, name) : undefined;
      if (stats?.isFile() === true) await visit(prefix + pathOf(name), stats);
    });
    folders += below.length;
    for (const name of below) {
      if (signal.aborted) return;
      if (depth >= DEPTH_LIMIT) tooDeep();
      else await enter(() => enterEntry(folder, name), `${prefix}${pathOf(name)}/`, depth + 1);
    }
  }

  async function enter(open: () => Promise<FileHandle>, prefix: FilePath, depth: number): Promise<void> {
    try {
      await using folder = await open();
      await walk(folder, prefix, depth);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  await enter(() => enterFolder(root), '', 0);
  return folders;
}
