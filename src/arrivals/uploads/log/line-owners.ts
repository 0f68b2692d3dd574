/**
 * Finds the user whose session wrote a line, and the status of the files that the line names. Runs in the log's thread,
 * so it asks the kernel and never the database.
 */
import type { Stats } from 'node:fs';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { lstatBeneath, lstatEntry, namesIn, openFolder } from '../../../foundation/base/beneath.ts';
import { isUsername } from '../../../rules/directories/host.ts';
import { isThere } from '../../../foundation/base/files.ts';
import { beginsLike, bytesOf, type FilePath, filePath, folderOf, jailFiles } from '../file-path.ts';
import { fewPathsHeldBy, type HeldPath, jailOf, startTimeOf } from '../processes.ts';
import type { Owned } from './journal-files.ts';
import type { FileAlike, LineRecord, Observation } from './journal-record.ts';
import { type LogEvent, type LogEventOf, readEvent } from './log-line.ts';
import { RefusedRequests, type StatusOf } from './refused-requests.ts';

/** How many sessions are remembered. The owner of a live process can also be found in /proc. */
const REMEMBERED = 20_000;

/** The most components that a path may have to be looked at. Each costs some 5 µs, for which all other lines wait. */
const DEEPEST = 64;

/** The most entries of a folder that are read to find a file, and the most files that may be alike. All other lines wait. */
const MOST_ENTRIES = 1000;
const MOST_ALIKE = 30;

/** A line as sshd wrote it. */
export interface Line {
  readonly at: number;
  readonly pid: number;
  readonly text: string;
}

interface Owner {
  readonly user: string;
  readonly address: string;
  /** The paths of the last line, if the next one may be its answer: it was an open, a rename, a removal, or about a folder. */
  lastPaths: readonly FilePath[] | undefined;
  readonly refused: RefusedRequests;
}

export interface LineOwnersOptions {
  readonly jailDir: string;
  /** The processes that an earlier berth has left in the journal, by pid. */
  readonly earlier: { get(pid: number): Owned | undefined };
}

export class LineOwners {
  readonly #options: LineOwnersOptions;
  readonly #byPid = new LRUCache<number, Owner>({ max: REMEMBERED });

  constructor(options: LineOwnersOptions) {
    this.#options = options;
  }

  /**
   * The record of a line and its user; undefined when the line says nothing about an upload, or the user cannot be
   * found. It must be called with every line, in order.
   */
  recordOf({ at, pid, text }: Line): { readonly user: string; readonly record: LineRecord } | undefined {
    const event = readEvent(text);
    const isFirst = event.kind === 'session-opened';
    const owner = isFirst ? this.#remember(pid, event.username, event.address) : this.#ownerOf(pid);
    if (!owner) return undefined;
    const { user, address } = owner;
    const root = jailFiles(this.#options.jailDir)(user);
    const refused = owner.refused.read({ at, text, event }, statusBelow(root));
    const record = { at, pid, event, address, refused };
    if (isFirst) return { user, record: { ...record, born: startTimeOf(pid) } };
    const paths = pathsToLookAt(event, owner) ?? (refused && []);
    if (!paths) return undefined;
    if (event.kind === 'unclear') {
      const alike = alikeIn(event, (folder, isLike) => filesIn(root, folder, isLike));
      return { user, record: { ...record, alike, held: heldLike(event, () => fewPathsHeldBy(pid, user)) } };
    }
    return { user, record: paths.length === 0 ? record : { ...record, seen: this.#look(user, paths) } };
  }

  #look(user: string, paths: readonly FilePath[]): (Observation | null)[] | undefined {
    if (paths.some(isTooDeep)) return undefined;
    const root = jailFiles(this.#options.jailDir)(user);
    return orUnseen(() => paths.map((path) => observationOf(lstatBeneath(root, bytesOf(path)))));
  }

  #ownerOf(pid: number): Owner | undefined {
    const known = this.#byPid.get(pid);
    if (known) return known;
    const user = jailOf(pid);
    if (user !== undefined && user !== '') return this.#remember(pid, user, '');
    // The process has ended. An earlier berth process may have read its first line.
    const earlier = this.#options.earlier.get(pid);
    return earlier && this.#remember(pid, earlier.user, earlier.address);
  }

  #remember(pid: number, user: string, address: string): Owner | undefined {
    // The user's name becomes a file name, so it has to be valid.
    if (!isUsername(user) || !isThere(join(this.#options.jailDir, user))) return undefined;
    const owner: Owner = { user, address, lastPaths: [], refused: new RefusedRequests() };
    this.#byPid.set(pid, owner);
    return owner;
  }
}

/**
 * The paths that a line's record should have observations of, or undefined when the journal does not need the line.
 * Clients ask for the status of files all the time: such a line matters only if it shows that the request before it was
 * not refused. Keeps in `owner` what the process's next line may answer.
 */
export function pathsToLookAt(event: LogEvent, owner: Pick<Owner, 'lastPaths'>): readonly FilePath[] | undefined {
  const { lastPaths } = owner;
  owner.lastPaths = undefined;
  switch (event.kind) {
    case 'open':
      owner.lastPaths = pathsOf(event.name);
      return event.flags.includes('WRITE') || event.flags.includes('APPEND') ? owner.lastPaths : [];
    case 'rename':
      return (owner.lastPaths = pathsOf(event.from, event.to));
    case 'remove':
    case 'make-folder':
    case 'remove-folder':
      return (owner.lastPaths = pathsOf(event.name));
    case 'close':
      return event.written > 0 ? pathsOf(event.name) : [];
    case 'status':
      // A failure may be that of a write.
      return event.text === 'Failure' ? (lastPaths ?? []) : lastPaths && [];
    case 'other':
      return lastPaths && [];
    case 'set':
      owner.lastPaths = pathsOf(event.name);
      return event.size === undefined ? [] : owner.lastPaths;
    case 'session-opened':
    case 'session-closed':
    case 'complaint':
    case 'write-refused':
    case 'unclear':
      return [];
  }
}

function statusBelow(root: string): StatusOf {
  return (path) => (isTooDeep(path) ? undefined : orUnseen(() => lstatBeneath(root, bytesOf(path))));
}

/** What the journal keeps of a file's status. */
export function observationOf(
  stats: Pick<Stats, 'ino' | 'size' | 'mtimeMs' | 'ctimeMs' | 'birthtimeMs' | 'isDirectory'> | undefined,
): Observation | null {
  if (!stats) return null;
  const { ino, size, mtimeMs, ctimeMs, birthtimeMs } = stats;
  return { ino, size, mtimeMs, birthtimeMs, sinceMs: stats.isDirectory() ? birthtimeMs : ctimeMs };
}

/** The files that a process holds, of those that a line with an uncertain name may mean. Asks only where that says something. */
export function heldLike(
  { about, start }: LogEventOf<'unclear'>,
  ask: () => readonly HeldPath[] | undefined,
): HeldPath[] | undefined {
  if (about !== 'open' && about !== 'close') return undefined;
  return ask()?.filter(({ path }) => beginsLike(path, start));
}

/** The files that a line with an uncertain name may mean. Looks only where that says something. */
export function alikeIn(
  { about, start }: LogEventOf<'unclear'>,
  look: (folder: FilePath, isLike: (path: FilePath) => boolean) => FileAlike[] | undefined,
): FileAlike[] | undefined {
  const folder = about === 'open' || about === 'remove' ? undefined : folderOf(start);
  return folder === undefined || isTooDeep(folder) ? undefined : look(folder, (path) => beginsLike(path, start));
}

/** The files in a folder (`''`, or with a `/` at its end) whose paths are like that; undefined if it has too many. */
function filesIn(root: string, path: FilePath, isLike: (path: FilePath) => boolean): FileAlike[] | undefined {
  return orUnseen(() => {
    using folder = openFolder(root, bytesOf(path));
    const names = namesIn(folder, (name) => isLike(path + name), { most: MOST_ALIKE, mostEntries: MOST_ENTRIES });
    return names?.flatMap((name) => {
      const stats = lstatEntry(folder, bytesOf(name));
      const seen = stats?.isFile() ? observationOf(stats) : null;
      return seen ? [{ ...seen, path: path + name }] : [];
    });
  });
}

/** Undefined when the kernel cannot be asked: there is no such folder, or no descriptor is left. The line counts without it. */
function orUnseen<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

function pathsOf(...names: readonly string[]): readonly FilePath[] {
  const paths = names.map(filePath);
  return paths.every((path) => path !== undefined) ? paths : [];
}

function isTooDeep(path: FilePath): boolean {
  return path.split('/').length > DEEPEST;
}
