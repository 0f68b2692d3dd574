/**
 * Compares all files of a directory with their rows, and reports files that differ or are missing. Opens folders
 * component by component, so that nothing that a user does meanwhile leads the scan elsewhere.
 */
import type { Stats } from 'node:fs';
import {
  type Folder,
  isAbsent,
  listFolder,
  lstatBeneath,
  lstatEntry,
  openEntry,
  openFolder,
} from '../../base/beneath.ts';
import type { FilesTable } from '../../db/schema.ts';
import { yielder } from '../../base/event-loop.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import { type FileStat, fileStat, isSame } from '../record/file-stat.ts';

/** How many rows are read at once; this takes some 2 ms. */
const PAGE = 500;

/** How many rows of a directory a scan holds in memory at most. */
const EXPECTED = 50_000;

/** How deep folders may be nested. Each level costs an open file. Deeper folders are reported. */
const DEPTH_LIMIT = 400;

/** A file as its row has it. */
export type RecordedFile = FileStat & Pick<FilesTable, 'path'>;

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
  const pause = yielder();
  const check = async (path: Buffer): Promise<void> => {
    if (!lstatBeneath(root, path)?.isFile()) await options.missing(pathOf(path));
    await pause();
  };
  for (const path of expected.left()) {
    if (signal.aborted) return folders;
    await check(bytesOf(path));
  }
  for (let after = expected.end; after !== undefined && !signal.aborted;) {
    const rows = await options.filesAfter(after, PAGE);
    for (const { path } of rows) await check(path);
    after = rows.length < PAGE ? undefined : rows.at(-1)?.path;
  }
  return folders;
}

/** The recorded files of a directory. When there are very many, only the first of them. */
async function expectedFiles({ filesAfter, signal }: ScanOptions) {
  const rows = new Map<FilePath, RecordedFile>();
  let end: Buffer | undefined = Buffer.alloc(0);
  while (end !== undefined && rows.size < EXPECTED && !signal.aborted) {
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
      return row !== undefined && row.inode >= 0 && isSame(row, fileStat(stats));
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
  const pause = yielder();
  let folders = 0;

  async function walk(folder: Folder, prefix: FilePath, depth: number): Promise<void> {
    for (const { name, kind } of await listFolder(folder)) {
      if (signal.aborted) return;
      const rest = pause();
      if (rest) await rest;
      const path = prefix + pathOf(name);
      if (kind === 'file') {
        const stats = lstatEntry(folder, name);
        const visiting = stats?.isFile() === true ? visit(path, stats) : undefined;
        if (visiting) await visiting;
      } else if (kind === 'folder') {
        folders += 1;
        if (depth >= DEPTH_LIMIT) tooDeep();
        else await enter(() => openEntry(folder, name), `${path}/`, depth + 1);
      }
    }
  }

  async function enter(open: () => Folder, prefix: FilePath, depth: number): Promise<void> {
    try {
      using folder = open();
      await walk(folder, prefix, depth);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  await enter(() => openFolder(root), '', 0);
  return folders;
}
