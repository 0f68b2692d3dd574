/**
 * Inspects and removes files below a folder as root, where a hostile user may swap anything at any moment. It opens every component of
 * a path by itself and follows no link, so no path leads outside.
 *
 * Node has no openat(2). `/proc/self/fd/N/name` does the same: the kernel starts at the open folder N, whatever its
 * path has become (proc(5)), and only the last component is left to resolve.
 */
import { closeSync, constants, lstatSync, opendirSync, openSync, type Stats, unlinkSync } from 'node:fs';
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises';
import { errorCode } from './errors.ts';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const SLASH = 0x2f;

/** How many entries of a folder one call reads. */
const BATCH_ENTRIES = 256;

/** An open folder. Close it, or hold it with `using`. */
export interface Folder extends Disposable {
  readonly fd: number;
}

export interface FolderEntry {
  readonly name: Buffer;
  readonly kind: 'file' | 'folder' | 'other';
}

/**
 * Opens `path` below `root`. `root` itself is trusted, but its last component may not be a link.
 * @throws the system's error: `ENOENT`, `ENOTDIR` (a component that is a file or a link), `ELOOP`.
 */
export function openFolder(root: string, path: Buffer = Buffer.alloc(0)): Folder {
  let fd = openSync(root, FOLDER);
  for (const name of components(path)) {
    const parent = fd;
    try {
      fd = openSync(at(parent, name), FOLDER);
    } finally {
      closeSync(parent);
    }
  }
  return hold(fd);
}

/** Opens one entry of an open folder as a folder. */
export function openEntry(parent: Folder, name: Buffer): Folder {
  return hold(openSync(at(parent.fd, name), FOLDER));
}

/**
 * Opens the file at `path` below `root` for reading, without blocking on a FIFO. Close the descriptor.
 * @throws the system's error.
 */
export function openFile(root: string, path: Buffer): number {
  return inFolderOf(root, path, ({ fd }, name) => openSync(at(fd, name), FILE));
}

/** The status of the file at `path` below `root`; undefined when there is no such file, or a link leads to it. */
export function lstatBeneath(root: string, path: Buffer): Stats | undefined {
  try {
    return inFolderOf(root, path, lstatEntry);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** The status of an entry of an open folder; undefined when there is none. */
export function lstatEntry(folder: Folder, name: Buffer): Stats | undefined {
  return lstatSync(at(folder.fd, name), { throwIfNoEntry: false });
}

/**
 * The names in an open folder that are wanted, with one character a byte; undefined if there are more than `most`, or the folder has more
 * than `mostEntries`.
 */
export function namesIn(
  { fd }: Folder,
  isWanted: (name: string) => boolean,
  { most, mostEntries }: { readonly most: number; readonly mostEntries: number },
): string[] | undefined {
  const names: string[] = [];
  let count = 0;
  using entries = opendirSync(`/proc/self/fd/${fd}`, { bufferSize: BATCH_ENTRIES, encoding: 'latin1' });
  for (let entry = entries.readSync(); entry; entry = entries.readSync()) {
    count += 1;
    if (count > mostEntries) return undefined;
    if (!isWanted(entry.name)) continue;
    if (names.length === most) return undefined;
    names.push(entry.name);
  }
  return names;
}

/**
 * A path to an entry of an open folder, valid while the folder is open. Use it only in calls that do not follow a link in the last
 * component.
 */
export function placeIn({ fd }: Folder, name: Buffer): Buffer {
  return at(fd, name);
}

/** Removes the file at `path` below `root`; of a link, the link itself. False when there is none. */
export function unlinkBeneath(root: string, path: Buffer): boolean {
  try {
    inFolderOf(root, path, ({ fd }, name) => unlinkSync(at(fd, name)));
    return true;
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  }
}

/** Like `openFolder`, without holding up the event loop. */
export async function enterFolder(root: string, path: Buffer = Buffer.alloc(0)): Promise<FileHandle> {
  let folder = await open(root, FOLDER);
  for (const name of components(path)) {
    await using parent = folder;
    folder = await enterEntry(parent, name);
  }
  return folder;
}

/** Like `openEntry`, without holding up the event loop. */
export function enterEntry(parent: FileHandle, name: Buffer): Promise<FileHandle> {
  return open(at(parent.fd, name), FOLDER);
}

/** The entries of an open folder, in no order, read without holding up the event loop. */
export async function* entriesOf({ fd }: FileHandle): AsyncGenerator<FolderEntry> {
  // latin1 maps each byte to one character, so that every name survives.
  for await (const entry of await opendir(`/proc/self/fd/${fd}`, { bufferSize: BATCH_ENTRIES, encoding: 'latin1' })) {
    const kind = entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : 'other';
    yield { name: Buffer.from(entry.name, 'latin1'), kind };
  }
}

/** The status of an entry of an open folder, read without holding up the event loop; undefined when it has gone. */
export async function statusOf({ fd }: FileHandle, name: Buffer): Promise<Stats | undefined> {
  try {
    return await lstat(at(fd, name));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** Like `lstatBeneath`, without holding up the event loop. */
export async function statusBeneath(root: string, path: Buffer): Promise<Stats | undefined> {
  const cut = path.lastIndexOf(SLASH);
  try {
    await using folder = await enterFolder(root, path.subarray(0, Math.max(cut, 0)));
    return await statusOf(folder, path.subarray(cut + 1));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** Whether an error means that there is nothing at that path that we may touch. */
export function isAbsent(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG';
}

/** Opens the folder that the last component of `path` is in, for as long as `use` takes. */
export function inFolderOf<T>(root: string, path: Buffer, use: (folder: Folder, name: Buffer) => T): T {
  const cut = path.lastIndexOf(SLASH);
  using folder = openFolder(root, path.subarray(0, Math.max(cut, 0)));
  return use(folder, path.subarray(cut + 1));
}

function hold(fd: number): Folder {
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}

function at(fd: number, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name]);
}

/** The components of a path, without empty ones. */
export function* components(path: Buffer): Generator<Buffer> {
  let start = 0;
  while (start < path.length) {
    const slash = path.indexOf(SLASH, start);
    const end = slash === -1 ? path.length : slash;
    if (end > start) yield path.subarray(start, end);
    start = end + 1;
  }
}
