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
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Micros } from '../../base/clock.ts';
import { isThere } from '../../base/there.ts';
import { type JournalRecord, type Known, type Position, readBase, readRecord } from './journal-record.ts';

/** The limit for all files together, in bytes: some five million lines. Half of the free space is a second limit. */
const LIMIT = 2 ** 30;

/** How many records may wait in memory, for one user and for all. */
const IN_MEMORY = { each: 5000, all: 50_000 };

/** How many waiting records are written at once when there is room again. */
const PIECE = 100;

/** The longest first line, in bytes. A session has at most a thousand handles. */
const FIRST_LINE = 2 ** 20;

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
  readonly at: Micros;
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

  /**
   * The owners of all processes in the journal. For each user, the sessions of the base come first, then the writers of
   * records, oldest first.
   */
  *owners(): Generator<Owned> {
    for (const user of this.#files.keys()) {
      const file = readFileSync(this.#path(user));
      const { state = [], length } = readBase(file);
      for (const { by } of state) yield { user, at: 0, ...by };
      for (const line of file.toString('utf8', length).split('\n')) {
        const record = readRecord(line);
        if (record && !record.isGap) yield { user, at: record.at, pid: record.pid, address: record.address };
      }
    }
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
      while (file.memory.length > 0 && this.#write(user, file, file.memory.slice(0, PIECE))) {
        this.#inMemory -= file.memory.splice(0, PIECE).length;
      }
      const gap: JournalRecord = { at: now, pid: 0, text: '', address: '', isGap: true };
      if (file.hasLost && file.memory.length === 0) file.hasLost = !this.#write(user, file, [gap]);
      if (file.size !== before) written.push([user, endOf(file)]);
    }
    return written;
  }

  /**
   * Replaces the records before a position with `known`. Deletes the file if `known` is undefined and no record is
   * left. Returns false, with the file as it was, when the disk has no room for the new file.
   */
  compact(user: string, position: Position, known: Known | undefined): boolean {
    const file = this.#files.get(user);
    if (!file || position > endOf(file)) return true;
    const path = this.#path(user);
    if (known === undefined && position === endOf(file) && file.memory.length === 0) {
      rmSync(path, { force: true });
      this.#resize(file, 0);
      this.#files.delete(user);
      return true;
    }
    const from = position - file.base + file.baseLength;
    const tail = readFileSync(path).subarray(from);
    const head = Buffer.from(`${JSON.stringify({ base: position, ...known })}\n`);
    const fresh = `${path}.new`;
    try {
      writeFileSync(fresh, Buffer.concat([head, tail]), { mode: 0o600 });
      renameSync(fresh, path);
    } catch {
      rmSync(fresh, { force: true });
      return false;
    }
    file.base = position;
    file.baseLength = head.length;
    this.#resize(file, head.length + tail.length);
    this.#unsynced.add(user);
    return true;
  }

  /** Waits until everything that was appended before the call is on the disk. */
  async sync(): Promise<void> {
    const users = [...this.#unsynced];
    this.#unsynced.clear();
    for (const user of users) {
      try {
        await using handle = await open(this.#path(user), 'r');
        await handle.datasync();
      } catch {
        // The file has gone, or the disk fails, which shows elsewhere.
      }
    }
  }

  #adopt(user: string): void {
    const path = this.#path(user);
    const { size } = statSync(path);
    const fd = openSync(path, 'r');
    try {
      const start = Buffer.alloc(Math.min(size, FIRST_LINE));
      readSync(fd, start, 0, start.length, 0);
      const { base, length } = readBase(start);
      const end = Buffer.alloc(Math.min(size, FIRST_LINE));
      readSync(fd, end, 0, end.length, fstatSync(fd).size - end.length);
      // A crash may have cut off the last record.
      const whole = size - end.length + end.lastIndexOf(0x0a) + 1;
      if (whole < size) truncateSync(path, whole);
      const file: File = { size: 0, baseLength: length, base, memory: [], hasLost: false };
      this.#files.set(user, file);
      this.#resize(file, whole);
    } finally {
      closeSync(fd);
    }
  }

  /** Writes all of the records or none. */
  #write(user: string, file: File, records: readonly JournalRecord[]): boolean {
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join('');
    const length = Buffer.byteLength(text);
    try {
      if (file.size + length > this.#room()) throw new Error('its share of the journal is used up');
      appendFileSync(this.#path(user), text, { mode: 0o600 });
      this.#resize(file, file.size + length);
      this.#unsynced.add(user);
      return true;
    } catch (error) {
      if (isThere(this.#path(user))) truncateSync(this.#path(user), file.size);
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
