/**
 * The journal's files, written by the transfer log's thread: one for each SFTP user, in the state folder, readable by
 * berth alone.
 *
 * Promise: appended records survive the end of the process, and after at most a second also a power cut. A user's file
 * may be at most as large as the room that is left, so no user takes all of it. Records that the disk does not take
 * wait in memory. When there are too many of them, lines are lost, and a record says so.
 */
import {
  appendFileSync,
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Micros } from '../../../foundation/base/clock.ts';
import { isOutOfDescriptors } from '../../../foundation/base/errors.ts';
import { linesOf, PIECE, readBase, readPiece } from './journal-pieces.ts';
import { baseLine, type JournalRecord, type Position, readRecord } from './journal-record.ts';

/** The limit for all files together, in bytes: some five million lines. Half of the free space is a second limit. */
const LIMIT = 2 ** 30;

/** How many records may wait in memory, for one user and for all. */
const IN_MEMORY = { each: 5000, all: 50_000 };

/** How many waiting records are written at once when there is room again. */
const AT_ONCE = 100;

/** How many processes of an earlier berth are remembered. */
const REMEMBERED = 20_000;

/** How many bytes a compaction copies at once. */
const COPY = 2 ** 20;

/** How a line's record begins, except for the first of a session. */
const RECORD = /^\{"at":(\d+),"pid":(\d+),"event":\{"kind":"(?!session-opened")/;

/** Where a file's records begin: their position, and the length of the base's line in bytes. */
export interface Beginning {
  readonly base: Position;
  readonly baseLength: number;
}

interface File {
  /** The file's size in bytes, and how many of them are the base's line. */
  size: number;
  baseLength: number;
  base: Position;
  /** Records that could not be written yet. */
  memory: JournalRecord[];
  hasLost: boolean;
}

/** A process, and the user whose session it served at that time. */
export interface Owned {
  readonly user: string;
  at: Micros;
  readonly pid: number;
  readonly address: string;
}

export interface JournalFilesOptions {
  readonly folder: string;
  /** Called when the disk does not take a record. */
  failed(error: unknown): void;
  readonly limit?: number;
}

export class JournalFiles {
  readonly #options: JournalFilesOptions;
  readonly #files = new Map<string, File>();
  /** Users whose file has changed since it was last synced. */
  readonly #unsynced = new Set<string>();
  readonly #earlier = new LRUCache<number, Owned>({ max: REMEMBERED });
  /** The sum over all files: bytes, and records in memory. */
  #taken = 0;
  #inMemory = 0;

  /** Begins with the files that an earlier process left. */
  constructor(options: JournalFilesOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(options.folder)) {
      if (name.endsWith('.new')) rmSync(this.#path(name));
      else this.#adopt(name);
    }
  }

  /** Where each user's journal ends. */
  ends(): [string, Position][] {
    return [...this.#files].map(([user, file]) => [user, endOf(file)]);
  }

  /** The last owner of each process that an earlier berth has left in the journal, by pid. */
  get earlier(): { get(pid: number): Owned | undefined } {
    return this.#earlier;
  }

  /** Whether records wait in memory for room on the disk. */
  get isWaiting(): boolean {
    return this.#inMemory > 0;
  }

  /** Appends records. Returns where the journal ends now, or undefined when nothing has reached the disk. */
  append(user: string, records: readonly JournalRecord[]): Position | undefined {
    const file = this.#fileOf(user);
    if (file.memory.length === 0 && !file.hasLost && this.#write(user, file, records)) return endOf(file);
    const room = Math.min(IN_MEMORY.each - file.memory.length, IN_MEMORY.all - this.#inMemory);
    const taken = file.hasLost ? [] : records.slice(0, Math.max(room, 0));
    file.memory.push(...taken);
    this.#inMemory += taken.length;
    file.hasLost ||= taken.length < records.length;
    return undefined;
  }

  /**
   * Tries to write the records that wait in memory. Returns the users for whom that worked, and where their journals
   * end.
   */
  retry(now: Micros): [string, Position][] {
    const written: [string, Position][] = [];
    for (const [user, file] of this.#files) {
      const before = file.size;
      while (file.memory.length > 0 && this.#write(user, file, file.memory.slice(0, AT_ONCE))) {
        this.#inMemory -= file.memory.splice(0, AT_ONCE).length;
      }
      if (file.hasLost && file.memory.length === 0) file.hasLost = !this.#write(user, file, [{ at: now, isGap: true }]);
      if (file.size !== before) written.push([user, endOf(file)]);
    }
    return written;
  }

  /**
   * Replaces the records before a position with a base, which is given as its line. Deletes the file if there is no
   * base and no record is left. Records may be appended meanwhile, but one user's file is compacted once at a time.
   * Returns the new beginning; undefined, with the file as it was, when the disk has no room for the new file.
   */
  async compact(user: string, position: Position, base: string | undefined): Promise<Beginning | undefined> {
    const file = this.#files.get(user);
    if (!file || position > endOf(file)) return { base: file?.base ?? 0, baseLength: file?.baseLength ?? 0 };
    const path = this.#path(user);
    if (base === undefined && position === endOf(file) && file.memory.length === 0) {
      rmSync(path, { force: true });
      this.#resize(file, 0);
      this.#files.delete(user);
      return { base: 0, baseLength: 0 };
    }
    const head = Buffer.from(base ?? baseLine({ base: position }));
    const fresh = `${path}.new`;
    const from = position - file.base + file.baseLength;
    try {
      await using source = await open(path, 'r');
      await using target = await open(fresh, 'w', 0o600);
      await target.writeFile(head);
      let at = from;
      while (file.size - at > PIECE) at += await copy(source, target, at, Math.min(file.size - at, COPY));
      // Nothing can be appended between here and the rename.
      for (let left = readPiece(source.fd, at, file.size - at); left.length > 0;)
        left = left.subarray(writeSync(target.fd, left));
      renameSync(fresh, path);
    } catch {
      rmSync(fresh, { force: true });
      return undefined;
    }
    file.base = position;
    file.baseLength = head.length;
    this.#resize(file, head.length + file.size - from);
    this.#unsynced.add(user);
    return { base: position, baseLength: head.length };
  }

  /** Waits until everything that was appended before the call is on the disk. */
  async sync(): Promise<void> {
    const users = [...this.#unsynced];
    this.#unsynced.clear();
    for (const user of users) {
      try {
        await using handle = await open(this.#path(user), 'r');
        await handle.datasync();
      } catch (error) {
        if (isOutOfDescriptors(error)) this.#unsynced.add(user);
        // Otherwise the file has gone, or the disk fails, which shows elsewhere.
      }
    }
  }

  #adopt(user: string): void {
    const opened = openSync(this.#path(user), 'r+');
    try {
      const { base, length, state = [] } = readBase(opened);
      for (const { by } of state) this.#note({ user, at: 0, ...by });
      let whole = length;
      for (const { text, end } of linesOf(opened, length)) {
        whole = end;
        this.#noteOwner(user, text);
      }
      // A crash may have cut off the last record.
      if (whole < fstatSync(opened).size) ftruncateSync(opened, whole);
      const file: File = { size: 0, baseLength: length, base, memory: [], hasLost: false };
      this.#files.set(user, file);
      this.#resize(file, whole);
    } finally {
      closeSync(opened);
    }
  }

  /** Notes who wrote a record. Parses it only if its process may have another owner than the one that is known. */
  #noteOwner(user: string, text: string): void {
    const [, at, pid] = RECORD.exec(text) ?? [];
    const known = pid === undefined ? undefined : this.#earlier.get(Number(pid));
    if (known?.user === user) return void (known.at = Number(at));
    const record = readRecord(text);
    if (record && !record.isGap) this.#note({ user, at: record.at, pid: record.pid, address: record.address });
  }

  #note(owned: Owned): void {
    if ((this.#earlier.get(owned.pid)?.at ?? 0) <= owned.at) this.#earlier.set(owned.pid, owned);
  }

  /** Writes all of the records or none. */
  #write(user: string, file: File, records: readonly JournalRecord[]): boolean {
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join('');
    const length = Buffer.byteLength(text);
    try {
      if (file.size + length > this.#room()) throw new Error('its share of the journal is used up');
      appendOrRestore(this.#path(user), text, file.size);
      this.#resize(file, file.size + length);
      this.#unsynced.add(user);
      return true;
    } catch (error) {
      this.#options.failed(error);
      return false;
    }
  }

  #room(): number {
    const { bavail, bsize } = statfsSync(this.#options.folder);
    return Math.min((this.#options.limit ?? LIMIT) - this.#taken, (bavail * bsize) / 2);
  }

  #fileOf(user: string): File {
    const file = this.#files.get(user) ?? { size: 0, baseLength: 0, base: 0, memory: [], hasLost: false };
    this.#files.set(user, file);
    return file;
  }

  #resize(file: File, size: number): void {
    this.#taken += size - file.size;
    file.size = size;
  }

  #path(user: string): string {
    return join(this.#options.folder, user);
  }
}

function endOf({ base, baseLength, size }: File): Position {
  return base + size - baseLength;
}

/** Appends to a file of `size` bytes. If that fails, the file is as long as before. */
function appendOrRestore(path: string, text: string, size: number): void {
  // One descriptor for both: when there are none left, a second one could not be opened.
  const opened = openSync(path, 'a', 0o600);
  try {
    appendFileSync(opened, text);
  } catch (error) {
    ftruncateSync(opened, size);
    throw error;
  } finally {
    closeSync(opened);
  }
}

/** Copies up to `length` bytes from a position to the end of another file. Returns how many. */
async function copy(source: FileHandle, target: FileHandle, from: number, length: number): Promise<number> {
  const { buffer, bytesRead } = await source.read(Buffer.allocUnsafe(length), 0, length, from);
  if (bytesRead === 0) throw new Error('the journal is shorter than it was');
  await target.writeFile(buffer.subarray(0, bytesRead));
  return bytesRead;
}
