/**
 * Lines of the log that wait on the disk: a queue for each SFTP user, in a file with a JSON object a line. It outlives the
 * process, however that ends, but not a power cut. What the disk does not take waits in memory; beyond that lines are lost.
 *
 * Nobody takes all of the room: a user's file may grow up to what is left then, so some is left for the next one.
 */
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Micros } from '../../clock.ts';

/** All files together, in bytes: some five million lines. Never more than half of the free space, besides. */
const LIMIT = 2 ** 30;

/** Lines in memory: of one user, and of all. */
const IN_MEMORY = { each: 5000, all: 50_000 };

/** Read at once, in bytes. No line is that long. */
const CHUNK = 64 * 1024;

/** What lay at a path when a line came. */
export interface Sighting {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
}

/** A line of the log as it is kept. */
export interface KeptLine {
  readonly at: Micros;
  readonly pid: number;
  readonly text: string;
  /** The client's; '' when it is not known. */
  readonly address: string;
  /** What lay at the path that the line is about; null for nothing. Undefined when nobody looked. */
  readonly seen?: Sighting | null | undefined;
}

interface Queue {
  /** Of the file, in bytes. */
  size: number;
  /** Where in the file the next line is. */
  next: number;
  /** Behind those of the file. */
  memory: KeptLine[];
  hasLost: boolean;
}

export class SpoolQueues {
  readonly #folder: string;
  readonly #limit: number;
  readonly #failed: (error: unknown) => void;
  readonly #queues = new Map<string, Queue>();
  /** By all of them: bytes, and lines in memory. */
  #taken = 0;
  #inMemory = 0;

  /** With what an earlier process left. @param failed told when the disk does not take a line. */
  constructor(folder: string, failed: (error: unknown) => void, limit = LIMIT) {
    this.#folder = folder;
    this.#failed = failed;
    this.#limit = limit;
    if (!existsSync(folder)) return;
    for (const user of readdirSync(folder)) this.#resize(this.#queueOf(user), statSync(this.#path(user)).size);
  }

  users(): string[] {
    return [...this.#queues.keys()];
  }

  /** Puts lines at the end. */
  add(user: string, lines: readonly KeptLine[]): void {
    const queue = this.#queueOf(user);
    if (queue.memory.length === 0 && !queue.hasLost && this.#append(user, queue, lines)) return;
    const room = Math.min(IN_MEMORY.each - queue.memory.length, IN_MEMORY.all - this.#inMemory);
    const taken = queue.hasLost ? [] : lines.slice(0, Math.max(room, 0));
    queue.memory.push(...taken);
    this.#inMemory += taken.length;
    queue.hasLost ||= taken.length < lines.length;
  }

  /** The same for lines that only the next process has to follow: nothing else may wait. */
  addFollowed(user: string, lines: readonly KeptLine[]): void {
    const queue = this.#queueOf(user);
    this.#append(user, queue, lines);
    queue.next = queue.size;
  }

  /** Takes the next lines; none at the end. They stay in the file. */
  take(user: string): readonly KeptLine[] {
    const queue = this.#queueOf(user);
    while (queue.next < queue.size) {
      const lines = this.#read(user, queue);
      if (lines.length > 0) return lines;
    }
    const { memory } = queue;
    queue.memory = [];
    this.#inMemory -= memory.length;
    return memory;
  }

  /** Whether lines have been lost since the last call. */
  hasLost(user: string): boolean {
    const queue = this.#queueOf(user);
    const { hasLost } = queue;
    queue.hasLost = false;
    return hasLost;
  }

  remove(user: string): void {
    const queue = this.#queueOf(user);
    this.#inMemory -= queue.memory.length;
    this.#resize(queue, 0);
    rmSync(this.#path(user), { force: true });
    this.#queues.delete(user);
  }

  /** All of the lines, or none. */
  #append(user: string, queue: Queue, lines: readonly KeptLine[]): boolean {
    // The first break ends a line that a crash has cut off.
    const text = `\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n`;
    const size = queue.size + Buffer.byteLength(text);
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      if (size > this.#room()) throw new Error('its share of the spool is used up');
      appendFileSync(this.#path(user), text, { mode: 0o600 });
      this.#resize(queue, size);
      return true;
    } catch (error) {
      if (existsSync(this.#path(user))) truncateSync(this.#path(user), queue.size);
      this.#failed(error);
      return false;
    }
  }

  #read(user: string, queue: Queue): KeptLine[] {
    const file = openSync(this.#path(user), 'r');
    try {
      const chunk = Buffer.alloc(CHUNK);
      const text = chunk.subarray(0, readSync(file, chunk, 0, CHUNK, queue.next));
      const end = text.lastIndexOf('\n') + 1;
      queue.next = end === 0 ? queue.size : queue.next + end; // nothing but a line that was cut off
      return text.toString('utf8', 0, end).split('\n').flatMap(parsed);
    } finally {
      closeSync(file);
    }
  }

  #room(): number {
    const { bavail, bsize } = statfsSync(this.#folder);
    return Math.min(this.#limit - this.#taken, (bavail * bsize) / 2);
  }

  #queueOf(user: string): Queue {
    const queue = this.#queues.get(user) ?? { size: 0, next: 0, memory: [], hasLost: false };
    this.#queues.set(user, queue);
    return queue;
  }

  #resize(queue: Queue, size: number): void {
    this.#taken += size - queue.size;
    queue.size = size;
  }

  #path(user: string): string {
    return join(this.#folder, user);
  }
}

/** Nothing for a line that was cut off. */
function parsed(text: string): KeptLine[] {
  try {
    return text === '' ? [] : [JSON.parse(text) as KeptLine];
  } catch {
    return [];
  }
}
