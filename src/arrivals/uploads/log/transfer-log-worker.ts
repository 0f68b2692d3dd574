/**
 * The transfer log's own thread: accepts internal-sftp's log connections, reads them and appends their messages to the
 * journal. It does nothing else, so that it keeps up while the main thread is busy.
 *
 * Promise: the lines of one socket are appended in the order in which they were sent. Each message has a connection of
 * its own. The kernel queues connections in order, but their data may be read in any order, so a message waits for
 * those before it. Sockets take turns, so a flood delays only the directories that share its socket.
 */
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../../foundation/base/clock.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { type Beginning, JournalFiles } from './journal-files.ts';
import type { JournalRecord, Position } from './journal-record.ts';
import { type Line, LineOwners } from './line-owners.ts';
import { MARK, readFrame } from './log-line.ts';

export interface WorkerData {
  readonly sockets: readonly LogSocket[];
  /** Where the journal is. */
  readonly journal: string;
  readonly jailDir: string;
}

export interface LogSocket {
  readonly path: string;
  /** The descriptor of an inherited socket, which listens already. */
  readonly fd?: number | undefined;
}

/** The users whose journals have grown, and where these end now. */
export type News = readonly (readonly [user: string, end: Position])[];

export type FromWorker =
  | { readonly kind: 'listening'; readonly news: News }
  | { readonly kind: 'failed'; readonly path: string; readonly reason: string }
  | { readonly kind: 'news'; readonly news: News; readonly marks: readonly string[] }
  /** `beginning` is undefined when the disk had no room. */
  | { readonly kind: 'compacted'; readonly user: string; readonly beginning: Beginning | undefined }
  | { readonly kind: 'no room'; readonly reason: string };

export type ToWorker =
  | { readonly kind: 'compact'; readonly user: string; readonly position: Position; readonly base: string | undefined }
  | { readonly kind: 'close' };

/**
 * The longest backlog that the kernel allows (`net.core.somaxconn`). sshd's messages wait there while this thread is
 * stopped.
 */
const BACKLOG = 65_535;

/** In bytes; sshd's messages are shorter. */
const MESSAGE_LIMIT = 8192;

/**
 * How long a connection may stay silent, in ms. sshd writes at once after connecting, and a silent connection holds up
 * the others.
 */
const SILENCE_LIMIT_MS = 1000;

/**
 * The pause between two of many reports to the main thread, in ms. A report costs both threads more than a record does.
 * Lines are appended without a pause, because a message that was read is lost if the process is killed before that.
 */
const GATHER_MS = 2;
/**
 * How many reports need no pause after a quiet time. A small file is two messages, and its webhook waits for the
 * second.
 */
const AT_ONCE = 4;

/** How many messages of one socket are handled before the next socket's turn. */
const TURN = 32;

/** How often the journal is synced, and how often waiting records are tried again, in ms. */
const SYNC_MS = 1000;
const RETRY_MS = 250;

interface Incoming {
  readonly at: number;
  text: string;
  done: boolean;
}

const port = parentPort;
if (!port) throw new Error('this file is the transfer log’s worker thread');

const data = workerData as WorkerData;
const clock = systemClock();
const servers: Server[] = [];
const queues: Incoming[][] = [];
/** Marks that came after records for which the disk has no room. */
const heldMarks: string[] = [];
let flushing = false;
/** What the next report to the main thread says: where users' journals end, and marks that came back. */
const unreported = { ends: new Map<string, Position>(), marks: [] as string[] };
let reporting = false;
/** When the next report may go, by the monotonic clock in ms. A time in the past allows several reports at once. */
let due = Number.NEGATIVE_INFINITY;

const journal = new JournalFiles({
  folder: data.journal,
  failed: (error) => post({ kind: 'no room', reason: errorMessage(error) }),
});
const owners = new LineOwners({ jailDir: data.jailDir, earlier: journal.earlier });
const timers = [setInterval(() => void syncJournal(), SYNC_MS), setInterval(retry, RETRY_MS)];
let syncing: Promise<void> | undefined;
const compacting = new Set<Promise<void>>();

port.on('message', (message: ToWorker) => {
  if (message.kind === 'close') return void close();
  const done = compact(message).finally(() => compacting.delete(done));
  compacting.add(done);
});
void listenAll();

async function compact({ user, position, base }: ToWorker & { kind: 'compact' }): Promise<void> {
  const beginning = await journal.compact(user, position, base);
  report(); // so that a journal's end before its deletion is not reported after it
  post({ kind: 'compacted', user, beginning });
}

async function listenAll(): Promise<void> {
  await Promise.all(data.sockets.map(listen));
  post({ kind: 'listening', news: journal.ends() });
}

function listen({ path, fd }: LogSocket): Promise<void> {
  const queue: Incoming[] = [];
  queues.push(queue);
  const server = createServer({ pauseOnConnect: false }, (socket) => accept(socket, queue));
  servers.push(server);
  server.on('error', (error) => post({ kind: 'failed', path, reason: error.message }));
  return new Promise((resolve) => {
    // For a descriptor, Node takes the backlog by position only.
    if (fd !== undefined) return void server.listen({ fd }, BACKLOG, resolve);
    rmSync(path, { force: true }); // a socket of an earlier process; nobody listens on it any more
    server.listen({ path, backlog: BACKLOG }, () => {
      chmodSync(path, 0o666); // the folder above it decides who may reach it
      resolve();
    });
  });
}

function accept(socket: Socket, queue: Incoming[]): void {
  const incoming: Incoming = { at: clock.now(), text: '', done: false };
  queue.push(incoming);
  socket.setEncoding('latin1');
  // Node reads sockets after it runs timers. `setImmediate` lets it read what was sent while this process was stopped.
  socket.setTimeout(SILENCE_LIMIT_MS, () => setImmediate(() => socket.destroy()));
  const finish = (): void => {
    incoming.done = true;
    if (!flushing && queue[0]?.done) flushSoon();
  };
  socket.on('data', (chunk: string) => {
    incoming.text += chunk;
    // glibc ends a message on a stream socket with a NUL (misc/syslog.c).
    if (chunk.endsWith('\0')) finish();
    if (incoming.text.length > MESSAGE_LIMIT) socket.destroy();
  });
  socket.on('error', finish);
  socket.on('close', finish);
}

/** Waits for the reads of this turn of the event loop, so that a burst becomes one batch. */
function flushSoon(): void {
  flushing = true;
  setImmediate(flush);
}

/** Handles a turn of every socket. */
function flush(): void {
  let isMore = false;
  const marks: string[] = [];
  const byUser = new Map<string, JournalRecord[]>();
  for (const queue of queues) {
    const ready = queue.findIndex(({ done }, index) => !done || index === TURN);
    for (const { at, text } of queue.splice(0, ready === -1 ? queue.length : ready)) take(text, at, byUser, marks);
    isMore ||= queue[0]?.done === true;
  }
  const news = [...byUser].flatMap(([user, records]): News => {
    const end = journal.append(user, records);
    return end === undefined ? [] : [[user, end]];
  });
  heldMarks.push(...marks);
  tell(news);
  flushing = false;
  if (isMore) flushSoon();
}

function take(text: string, at: number, byUser: Map<string, JournalRecord[]>, marks: string[]): void {
  let isFirst = true;
  for (const part of text.split('\0')) {
    if (part.startsWith(MARK)) {
      marks.push(part);
      continue;
    }
    const frame = readFrame(part);
    if (!frame) continue;
    // Several lines may come in one connection. Each gets a time of its own.
    const line: Line = { at: isFirst ? at : clock.now(), ...frame };
    isFirst = false;
    const found = owners.recordOf(line);
    if (!found) continue;
    const records = byUser.get(found.user) ?? [];
    if (records.length === 0) byUser.set(found.user, records);
    records.push(found.record);
  }
}

/**
 * Reports news and marks soon. A mark promises that everything before it is in the journal, so it waits while records
 * wait for room on the disk.
 */
function tell(news: News): void {
  for (const [user, end] of news) unreported.ends.set(user, end);
  if (!journal.isWaiting) unreported.marks.push(...heldMarks.splice(0));
  if (reporting || unreported.ends.size + unreported.marks.length === 0) return;
  const rest = due - performance.now();
  if (rest <= 0) return report();
  reporting = true;
  setTimeout(report, rest);
}

function report(): void {
  reporting = false;
  due = Math.max(due, performance.now() - AT_ONCE * GATHER_MS) + GATHER_MS;
  const { ends, marks } = unreported;
  if (ends.size + marks.length > 0) post({ kind: 'news', news: [...ends], marks: marks.splice(0) });
  ends.clear();
}

function retry(): void {
  tell(journal.retry(clock.now()));
}

function syncJournal(): Promise<void> {
  return (syncing ??= journal.sync().finally(() => (syncing = undefined)));
}

async function close(): Promise<void> {
  for (const server of servers) server.close();
  for (const timer of timers) clearInterval(timer);
  // sshd writes at once after connecting.
  const over = performance.now() + SILENCE_LIMIT_MS;
  while (queues.some((queue) => queue.length > 0) && performance.now() < over) await wait(1);
  flush();
  report();
  await Promise.all(compacting);
  await syncJournal();
  port?.close();
}

function post(message: FromWorker): void {
  port?.postMessage(message);
}
