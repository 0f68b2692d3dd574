/**
 * The transfer log: the sockets to which sshd's internal-sftp writes from inside the jails (`/dev/log` there), read
 * by a worker thread, which appends each line to the journal of its user.
 *
 * Promises: a line is in the journal before anybody hears of it, and a user's lines are there in the order in which sshd sent
 * them. Sockets that were inherited outlive this process: lines wait in them for the next one. Sockets of its own are new
 * with each start; until a jail is linked to one, what its sessions do is not heard.
 */
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { OperatorError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Known, Position } from './journal-record.ts';
import type { FromWorker, LogSocket, News, ToWorker, WorkerData } from './transfer-log-worker.ts';

/** The longest socket path that unix(7) takes, without its NUL. */
const SOCKET_PATH_LIMIT = 107;

/** Sockets of its own: one for the customers beside a flood would be as many as is needed, and more cost nothing. */
const COUNT = 64;

/** The thread keeps what it is about to append, and what the disk has no room for. */
const HEAP = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 4 };

export interface TransferLogOptions {
  /** Where sockets are made: on the jails' file system, closed to users. */
  readonly corner: string;
  /** Where the journal is: closed to users. */
  readonly journal: string;
  readonly jailDir: string;
  /** Descriptors of sockets that outlive this process (scripts/lib/log-sockets); empty when nobody holds any for it. */
  readonly inherited: readonly number[];
  readonly log: Log;
}

/** Whoever follows the journal. */
export interface JournalFollower {
  /** A user's journal goes on up to there. */
  news(news: News): void;
  /** A mark that was sent to a socket has come back: all before it has been told of. */
  mark(text: string): void;
  /** What was asked for by `compact` has been done; positions are as before. */
  compacted(user: string): void;
}

export interface TransferLog {
  /** Whether the sockets were there before this process, so that no line was lost since the one before. */
  readonly isInherited: boolean;
  /** The sockets in the order in which a user's jail is to be linked to one: to the first that takes a further link. */
  socketsFor(username: string): readonly string[];
  /** The socket that the user's jail is linked to. */
  socketOf(username: string): string | undefined;
  /** Hands on from here on, beginning with where every journal ends now. One at a time. */
  follow(follower: JournalFollower | undefined): void;
  /** Removes what comes before that position, which `known` stands for; the journal itself when it is undefined and nothing is left. */
  compact(user: string, position: Position, known: Known | undefined): void;
  /** Whether the disk does not take all of the journal now. */
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
  const isInherited = areGiven && areTheSame(corner, journal);
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
        return follower?.compacted(message.user);
      case 'no room':
        if (!isFull) log.error({ reason: message.reason }, NO_ROOM);
        isFull = true;
    }
  });
  worker.once('error', opened.reject);
  const send = (message: ToWorker): void => worker.postMessage(message);
  try {
    await opened.promise;
  } catch (error) {
    await worker.terminate();
    throw error;
  }

  function socketsFor(username: string): readonly string[] {
    const first = hash(username) % paths.length;
    return [...paths.slice(first), ...paths.slice(0, first)];
  }
  return {
    isInherited,
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
      send({ kind: 'compact', user, position, known });
    },
    isFull: () => isFull,
    listening: () => running,
    async close() {
      if (running) send({ kind: 'close' });
      await exited;
    },
  };
}

const NO_ROOM =
  'the journal takes no more: some lines of sshd are kept in memory; of uploads beyond that, those that are removed are not announced';

function ownSockets(corner: string): LogSocket[] {
  return Array.from({ length: COUNT }, (_, index) => {
    const path = join(corner, `log-${index + 1}.sock`);
    if (Buffer.byteLength(path) <= SOCKET_PATH_LIMIT) return { path };
    throw new OperatorError(
      `the path ${path} is too long for a socket (${SOCKET_PATH_LIMIT}): use a shorter BERTH_JAIL_DIR`,
    );
  });
}

/** FNV-1a: the same in every process, so that jails stay linked. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value >>> 0;
}

/**
 * Whether the sockets that were given are those that the process before this one had: a stop on purpose closes them, and lines
 * were lost until there were new ones. Notes them for the next process.
 */
function areTheSame(corner: string, journal: string): boolean {
  const there = lstatSync(keptSocket(corner, 0), { throwIfNoEntry: false });
  if (!there) return false;
  const note = `${journal}.sockets`;
  const known = existsSync(note) ? readFileSync(note, 'utf8') : '';
  const now = `${there.dev}-${there.ino}`;
  if (known === now) return true;
  writeFileSync(note, now, { mode: 0o600 });
  return false;
}

function keptSocket(corner: string, index: number): string {
  return join(corner, `kept-${index + 1}.sock`);
}
