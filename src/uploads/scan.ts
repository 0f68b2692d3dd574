/**
 * Looks at all files of a directory and compares them with the rows: what differs goes to the settler, what has gone
 * too. The start runs it over every directory; a log line that could not be understood, over one.
 *
 * Works through folders it has opened, component by component, whatever the user does to them meanwhile.
 */
import type { Stats } from 'node:fs';
import { type Folder, isAbsent, listFolder, lstatBeneath, lstatEntry, openEntry, openFolder } from '../beneath.ts';
import { turns } from './turns.ts';
import { type FilesRoot, fileStat, isSame } from './batch.ts';
import type { RecordedFile, UploadQueries } from './queries.ts';
import type { Place, Settler } from './settle.ts';

/** Files after which a scan looks whether the database keeps up. */
const SOME = 100;

/** Rows that are read at once: some 2 ms. */
const PAGE = 500;

/** Rows of a directory that a scan holds in memory at most. */
const EXPECTED = 50_000;

/** Folders below each other that are looked into; each costs an open file. Deeper ones are reported. */
const DEPTH_LIMIT = 400;

export interface ScanOptions {
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'filesAfter'>;
  readonly settler: Pick<Settler, 'examine' | 'missing'>;
  /** Waits while too many changes are on their way to the database. */
  breathe(): Promise<void>;
  /** A folder is nested too deeply to be looked into. */
  tooDeep(place: Place, folder: Buffer): void;
  readonly signal: AbortSignal;
}

/** Scans a directory. Returns how many files it has. */
export async function scanDirectory(options: ScanOptions, place: Place): Promise<number> {
  const { settler, signal } = options;
  const root = options.filesRoot(place.sftp_username);
  const expected = await expectedFiles(options, place);
  let files = 0;
  await walkFiles(root, Buffer.alloc(0), {
    signal,
    tooDeep: (folder) => options.tooDeep(place, folder),
    visit(path, stats) {
      files += 1;
      // What is as recorded needs no further look, and no turn of the event loop; what is not may have been recorded since.
      if (expected.takeSame(path, stats)) return files % SOME === 0 ? options.breathe() : undefined;
      return settler.examine(place, path, stats).then(() => (files % SOME === 0 ? options.breathe() : undefined));
    },
  });

  const breath = turns();
  let missing = 0;
  const check = async ({ path }: Pick<RecordedFile, 'path'>): Promise<void> => {
    if (!lstatBeneath(root, path)?.isFile()) {
      settler.missing(place, path);
      missing += 1;
      if (missing % SOME === 0) await options.breathe();
    }
    await breath();
  };
  for (const row of expected.left()) {
    if (signal.aborted) return files;
    await check(row);
  }
  for (let after = expected.end; after !== undefined && !signal.aborted;) {
    const rows = await options.queries.filesAfter(place.id, after, PAGE);
    for (const row of rows) await check(row);
    after = rows.length < PAGE ? undefined : rows.at(-1)?.path;
  }
  return files;
}

/** The recorded files of a directory, the first of them when there are very many. */
async function expectedFiles({ queries, signal }: ScanOptions, place: Place) {
  const rows = new Map<string, RecordedFile>();
  let end: Buffer | undefined = Buffer.alloc(0);
  const breath = turns();
  while (end !== undefined && rows.size < EXPECTED && !signal.aborted) {
    const page: RecordedFile[] = await queries.filesAfter(place.id, end, PAGE);
    for (const row of page) rows.set(row.path.toString('latin1'), row);
    end = page.length < PAGE ? undefined : page.at(-1)?.path;
    await breath();
  }
  return {
    /** Whether the file is as its row has it. */
    takeSame(path: Buffer, stats: Stats): boolean {
      const key = path.toString('latin1');
      const row = rows.get(key);
      rows.delete(key);
      // A negative inode is that of a restored backup, whose row has yet to get to know its file.
      return row !== undefined && row.inode >= 0 && isSame(row, fileStat(stats));
    },
    /** Those that were not met. */
    left: () => rows.values(),
    /** Behind which path the rows go on; undefined when these are all. */
    end,
  };
}

export interface WalkOptions {
  readonly signal: AbortSignal;
  /** Waited for when it returns something to wait for. */
  visit(path: Buffer, stats: Stats): Promise<void> | undefined;
  tooDeep?(folder: Buffer): void;
  /** Whether to look at an entry at all; all of them when left out. */
  wanted?(path: Buffer): boolean;
}

/** Visits every regular file at or below the folder `start` of `root`. What vanishes on the way is left out. */
export async function walkFiles(root: string, start: Buffer, options: WalkOptions): Promise<void> {
  const breath = turns();

  async function walk(folder: Folder, prefix: Buffer, depth: number): Promise<void> {
    for (const { name, kind } of await listFolder(folder)) {
      if (options.signal.aborted) return;
      const rest = breath();
      if (rest) await rest;
      const path = prefix.length === 0 ? name : Buffer.concat([prefix, Buffer.from('/'), name]);
      if (options.wanted?.(path) === false) continue;
      if (kind === 'file') {
        const stats = lstatEntry(folder, name);
        const visiting = stats?.isFile() === true ? options.visit(path, stats) : undefined;
        if (visiting) await visiting;
      } else if (kind === 'folder') {
        if (depth >= DEPTH_LIMIT) options.tooDeep?.(path);
        else await enter(() => openEntry(folder, name), path, depth + 1);
      }
    }
  }

  async function enter(open: () => Folder, path: Buffer, depth: number): Promise<void> {
    try {
      using folder = open();
      await walk(folder, path, depth);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  await enter(() => openFolder(root, start), start, 0);
}
