/**
 * The transfer log: the sockets to which sshd's internal-sftp writes from inside the jails (`/dev/log` there), read by
 * a worker thread, which appends each line to the journal of its user.
 *
 * Promise: a line is in the journal before it is announced, and a user's lines are in the order in which sshd sent
 * them. Inherited sockets outlive this process: lines wait in them for the next one. Sockets that berth makes itself
 * are new with each start, and a jail's lines are lost until the jail is linked to one of them.
 */
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { OperatorError } from '../../../foundation/base/errors.ts';
import type { Log } from '../../../foundation/base/log.ts';
import type { Beginning } from './journal-files.ts';
import { baseLine, type Known, type Position } from './journal-record.ts';
import type { FromWorker, LogSocket, News, ToWorker, WorkerData } from './transfer-log-worker.ts';

/** The longest socket path that unix(7) takes, without its NUL. */
const SOCKET_PATH_LIMIT = 107;

/**
 * How many sockets berth makes itself. Directories that share a socket share the delay from a flood, and more sockets
 * cost nothing.
 */
const COUNT = 64;

/**
 * The limits of the thread's memory. It holds records that it is about to append, and those that the disk has no room
 * for.
 */
const HEAP = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 4 };

export interface TransferLogOptions {
  /** Where sockets are made: on the jails' file system, inaccessible to users. */
  readonly corner: string;
  /** Where the journal is, inaccessible to users. */
  readonly journal: string;
  readonly jailDir: string;
  /** Descriptors of sockets that outlive this process (scripts/lib/log-sockets). Empty when no supervisor holds any. */
  readonly inherited: readonly number[];
  readonly log: Log;
}

/** The journal's consumer. */
export interface JournalFollower {
  /** The journals of these users have grown up to these positions. */
  news(news: News): void;
  /** A mark that was sent to a socket has come back: everything before it has been announced. */
  mark(text: string): void;
  /**
   * A `compact` is complete: the file now begins like that. Undefined when the disk had no room. Positions stay the
   * same.
   */
  compacted(user: string, beginning: Beginning | undefined): void;
}

export interface TransferLog {
  /** The sockets for a user's jail in order of preference. The jail is linked to the first that takes another link. */
  socketsFor(username: string): readonly string[];
  /** The socket that the user's jail is linked to. */
  socketOf(username: string): string | undefined;
  /** Sets the follower, which first gets the position where every journal ends. There is only one at a time. */
  follow(follower: JournalFollower | undefined): void;
  /**
   * Replaces the records before a position with `known`. Deletes the journal if `known` is undefined and no record is
   * left.
   */
  compact(user: string, position: Position, known: Known | undefined): void;
  /** Whether the disk currently takes no more records. */
  isFull(): boolean;
  /** Whether the thread runs. */
  listening(): boolean;
  close(): Promise<void>;
}

/** @throws {OperatorError} when the sockets cannot be made. */
export async function openTransferLog(options: TransferLogOptions): Promise<TransferLog> {
  const { corner, journal, jailDir, inherited, log } = options;
  mkdirSync(corner, { recursive: true });
  chmodSync(corner, 0o700);
  const areGiven = inherited.length > 0;
  const sockets: readonly LogSocket[] = areGiven
    ? inherited.map((fd, index) => ({ fd, path: keptSocket(corner, index) }))
    : ownSockets(corner);
  const paths = sockets.map(({ path }) => path);
  const workerData: WorkerData = { sockets, journal, jailDir };
  const worker = new Worker(new URL(`./transfer-log-worker${extname(import.meta.url)}`, import.meta.url), {
    resourceLimits: HEAP,
    workerData,
  });
  let running = true;
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      running = false;
      resolve();
    });
  });
  const opened = Promise.withResolvers<void>();
  const ends = new Map<string, Position>();
  let follower: JournalFollower | undefined;
  let isFull = false;

  function take(news: News): void {
    for (const [user, end] of news) ends.set(user, end);
    follower?.news(news);
  }
  worker.on('message', (message: FromWorker) => {
    switch (message.kind) {
      case 'listening':
        take(message.news);
        return opened.resolve();
      case 'failed':
        return opened.reject(new OperatorError(`the transfer log cannot listen on ${message.path}: ${message.reason}`));
      case 'news':
        isFull &&= message.news.length === 0;
        take(message.news);
        return message.marks.forEach((mark) => follower?.mark(mark));
      case 'compacted':
        return follower?.compacted(message.user, message.beginning);
      case 'no room':
        if (!isFull) log.error({ reason: message.reason }, NO_ROOM);
        isFull = true;
    }
  });
  worker.once('error', opened.reject);
  const send = (message: ToWorker): void => worker.postMessage(message);
  try {
    await opened.promise;
    worker.once('error', (error) => log.error({ err: error }, ENDED));
  } catch (error) {
    await worker.terminate();
    throw error;
  }

  function socketsFor(username: string): readonly string[] {
    const first = hash(username) % paths.length;
    return [...paths.slice(first), ...paths.slice(0, first)];
  }
  return {
    socketsFor,
    socketOf(username) {
      const linked = lstatSync(join(jailDir, username, 'dev', 'log'), { throwIfNoEntry: false })?.ino;
      const candidates = socketsFor(username);
      return candidates.find((path) => lstatSync(path, { throwIfNoEntry: false })?.ino === linked) ?? candidates[0];
    },
    follow(given) {
      follower = given;
      given?.news([...ends]);
    },
    compact(user, position, known) {
      if (known === undefined && ends.get(user) === position) ends.delete(user);
      // The listener must never stall, so the line is made here.
      send({ kind: 'compact', user, position, base: known && baseLine({ base: position, ...known }) });
    },
    isFull: () => isFull,
    listening: () => running,
    async close() {
      if (running) send({ kind: 'close' });
      await exited;
    },
  };
}

const ENDED = 'the thread that reads the log of sshd has ended: restart berth, which is not healthy until then';

const NO_ROOM =
  'the journal takes no more: some lines of sshd are kept in memory; uploads beyond these are not announced if their file is removed';

function ownSockets(corner: string): LogSocket[] {
  return Array.from({ length: COUNT }, (_, index) => {
    const path = join(corner, `log-${index + 1}.sock`);
    if (Buffer.byteLength(path) <= SOCKET_PATH_LIMIT) return { path };
    throw new OperatorError(
      `the path ${path} is too long for a socket (${SOCKET_PATH_LIMIT}): use a shorter BERTH_JAIL_DIR`,
    );
  });
}

/** FNV-1a, which gives the same result in every process, so that jails stay linked to their sockets. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value >>> 0;
}

function keptSocket(corner: string, index: number): string {
  return join(corner, `kept-${index + 1}.sock`);
}
