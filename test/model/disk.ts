/** A disk in memory: names, inodes and open handles, with the rules of POSIX that matter to uploads. */
import type { FileAlike } from '../../src/arrivals/uploads/log/journal-record.ts';
import { observationOf } from '../../src/arrivals/uploads/log/line-owners.ts';
import type { HeldPath } from '../../src/arrivals/uploads/processes.ts';
import type { Found } from '../../src/arrivals/uploads/story/directory.ts';
import type { Random } from './random.ts';

export interface Inode {
  readonly ino: number;
  readonly isFolder: boolean;
  size: number;
  /** The bytes that take room on the disk: fewer than `size` in a file with holes. */
  allocated: number;
  /** µs. */
  mtime: number;
  ctime: number;
  readonly born: number;
  /** Handles that may write it. */
  writers: number;
  /** When a writer was closed last. */
  closedAt: number;
  /** How many names it has. */
  links: number;
  /** The name that it lost last. */
  lostName?: string;
  /** How often it was written, and that when it was synced last. */
  writes: number;
  syncedWrites: number;
  /** Its number was another's before. */
  isReused: boolean;
  /** A power cut has taken its data and left its size. */
  isZeros?: true;
  /** What is in it, if its size does not tell: another content of that size was there before. */
  content?: number | undefined;
}

/** A number of its own for what is in a file; its whole part is the size. */
export function contentOf({ content, size }: Inode): number {
  return content ?? size;
}

/** Room on the disk is given in blocks of that many bytes. */
const BLOCK = 4096;

/** More than a story has of one size. */
const CONTENTS = 1024;

export class ModelDisk {
  readonly #names = new Map<string, Inode>();
  /** Free inode numbers are used again at once, as ext4 does. */
  readonly #free: number[] = [];
  #last = 100;
  /** How many contents there are of a size besides the first. */
  readonly #others = new Map<number, number>();
  /** Whether somebody was notified. */
  changed: (path: string) => void = () => undefined;
  /** The names after each change since the last sync: a power cut leaves one of these. */
  #commits: Map<string, Inode>[] = [new Map()];

  at(path: string): Inode | undefined {
    return this.#names.get(path);
  }

  files(): [string, Inode][] {
    return [...this.#names].filter(([, { isFolder }]) => !isFolder);
  }

  pathOf(inode: Inode): string | undefined {
    return this.files().find(([, each]) => each === inode)?.[0];
  }

  /** As a descriptor's link in proc(5). */
  linkTo(inode: Inode): HeldPath {
    return { path: this.pathOf(inode) ?? `${inode.lostName} (deleted)`, inode: inode.ino };
  }

  /** As lstat(2). */
  lstat(path: string): Found | undefined {
    const inode = this.#names.get(path);
    if (!inode) return undefined;
    const { ino, size, allocated, mtime, ctime, born, isFolder } = inode;
    const times = { mtimeMs: mtime / 1000, ctimeMs: ctime / 1000, birthtimeMs: born / 1000 };
    const blocks = Math.ceil(allocated / BLOCK) * (BLOCK / 512);
    return { ino, size, blocks, ...times, isFile: () => !isFolder, isDirectory: () => isFolder };
  }

  /** The files at paths like that. */
  alike(isLike: (path: string) => boolean): FileAlike[] {
    return this.files().flatMap(([path]) => {
      const found = isLike(path) ? this.lstat(path) : undefined;
      const seen = found ? observationOf(found) : null;
      return seen ? [{ ...seen, path }] : [];
    });
  }

  makeFolder(path: string, now: number): boolean {
    if (this.#names.has(path) || !this.#hasParent(path)) return false;
    this.#names.set(path, this.#inode(true, now));
    this.#commit();
    return true;
  }

  /** As open(2) for writing. */
  open(path: string, how: { create: boolean; truncate: boolean; exclusive?: boolean }, now: number): Inode | undefined {
    const there = this.#names.get(path);
    if (there && how.exclusive) return undefined;
    if (there?.isFolder || (!there && (!how.create || !this.#hasParent(path)))) return undefined;
    const inode = there ?? this.#inode(false, now);
    if (!there) {
      this.#names.set(path, inode);
      this.#commit();
    }
    if (how.truncate) this.write(inode, 0, now);
    inode.writers += 1;
    this.changed(path);
    return inode;
  }

  write(inode: Inode, size: number, now: number, allocated = inode.allocated + Math.max(0, size - inode.size)): void {
    const room = Math.min(allocated, size);
    Object.assign(inode, { size, allocated: room, mtime: now, ctime: now, writes: inode.writes + 1 });
    delete inode.isZeros;
    inode.content = undefined;
  }

  /** Writes a content of that size that is another than those before. */
  writeAnother(inode: Inode, size: number, now: number): void {
    this.write(inode, size, now);
    const others = (this.#others.get(size) ?? 0) + 1;
    this.#others.set(size, others);
    inode.content = size + others / CONTENTS;
  }

  hasAnother(size: number): boolean {
    return this.#others.has(size);
  }

  /** As truncate(2): what is added is a hole. */
  resize(inode: Inode, size: number, now: number): void {
    this.write(inode, size, now, inode.allocated);
  }

  /** Whether it shows that a part of the file was never written. */
  hasHole({ allocated, size }: Inode): boolean {
    return Math.ceil(allocated / BLOCK) * BLOCK < size;
  }

  close(inode: Inode): void {
    inode.writers -= 1;
    this.#drop(inode);
  }

  /** As rename(2), or refused when `to` is there and `isCareful`, as SFTP's plain rename is. */
  rename(from: string, to: string, isCareful: boolean, now: number): boolean {
    const inode = this.#names.get(from);
    const there = this.#names.get(to);
    if (!inode || to.startsWith(`${from}/`)) return false;
    if (from === to) return !isCareful;
    if (!this.#hasParent(to) || (there && (isCareful || there.isFolder !== inode.isFolder))) return false;
    if (there?.isFolder && [...this.#names.keys()].some((path) => path.startsWith(`${to}/`))) return false;
    if (there) this.#unlink(to, there);
    for (const [path, each] of Array.from(this.#names)) {
      if (path !== from && !path.startsWith(`${from}/`)) continue;
      this.#names.delete(path);
      this.#names.set(to + path.slice(from.length), each);
    }
    inode.ctime = now;
    this.#commit();
    this.changed(from);
    this.changed(to);
    return true;
  }

  remove(path: string): boolean {
    const inode = this.#names.get(path);
    if (!inode || inode.isFolder) return false;
    this.#unlink(path, inode);
    this.#commit();
    this.changed(path);
    return true;
  }

  /** As rmdir(2): refused unless the folder is empty. */
  removeFolder(path: string): boolean {
    const inode = this.#names.get(path);
    const isFull = [...this.#names.keys()].some((each) => each.startsWith(`${path}/`));
    if (!inode?.isFolder || isFull) return false;
    this.#unlink(path, inode);
    this.#commit();
    return true;
  }

  /** As fsync(2) of the file and of the folders above it: one commit of the file system's journal has all changes of names. */
  sync(path: string): void {
    const inode = this.#names.get(path);
    if (inode) inode.syncedWrites = inode.writes;
    this.#commits = [new Map(this.#names)];
  }

  isSynced({ writes, syncedWrites }: Inode): boolean {
    return writes === syncedWrites;
  }

  /**
   * The power goes: changes of names are lost from some moment on, and a file that was not synced is whole, empty, or has its size
   * and no data.
   */
  cutPower(random: Random): void {
    const names = this.#commits[random(this.#commits.length)] ?? new Map<string, Inode>();
    this.#names.clear();
    for (const [path, inode] of names) this.#names.set(path, inode);
    for (const [, inode] of names) {
      inode.writers = 0;
      inode.links = 1;
      const what = inode.isFolder || this.isSynced(inode) ? 0 : random(3);
      if (what === 1) Object.assign(inode, { size: 0, allocated: 0, content: undefined });
      if (what === 2) inode.isZeros = true;
    }
    this.#commits = [new Map(this.#names)];
  }

  #commit(): void {
    this.#commits.push(new Map(this.#names));
    if (this.#commits.length > 50) this.#commits.shift();
  }

  #unlink(path: string, inode: Inode): void {
    this.#names.delete(path);
    inode.links -= 1;
    inode.lostName = path;
    this.#drop(inode);
  }

  #drop({ links, writers, ino }: Inode): void {
    if (links === 0 && writers === 0) this.#free.push(ino);
  }

  #inode(isFolder: boolean, now: number): Inode {
    const freed = this.#free.pop();
    const ino = freed ?? (this.#last += 1);
    const isReused = freed !== undefined;
    return {
      ino,
      isFolder,
      isReused,
      size: 0,
      allocated: 0,
      mtime: now,
      ctime: now,
      born: now,
      writers: 0,
      closedAt: 0,
      links: 1,
      writes: 1,
      syncedWrites: 0,
    };
  }

  #hasParent(path: string): boolean {
    const end = path.lastIndexOf('/');
    return end === -1 || this.#names.get(path.slice(0, end))?.isFolder === true;
  }
}
