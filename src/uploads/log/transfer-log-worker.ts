/**
 * The transfer log's own thread: accepts internal-sftp's log connections, reads them and hands their messages on, and
 * does nothing else, so that it keeps up when the main thread is busy.
 *
 * Promise: messages are handed on in the order in which they were sent. Each message is a connection of its own; the
 * kernel queues connections in order, but their data may be read in any, so a message waits for those before it.
 */
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';
import { type Micros, systemClock } from '../../clock.ts';
import { MARK, readFrame } from './log-line.ts';

/** A message of internal-sftp, or one of berth's own marks. */
export interface Line {
  /** When its connection was accepted. */
  readonly at: Micros;
  /** The process that sent it; 0 for a mark. */
  readonly pid: number;
  /** One character a byte. */
  readonly text: string;
}

export type FromWorker =
  | { readonly kind: 'lines'; readonly lines: readonly Line[] }
  | { readonly kind: 'listening' }
  | { readonly kind: 'failed'; readonly path: string; readonly reason: string };

export type ToWorker = { readonly kind: 'listen'; readonly path: string } | { readonly kind: 'close' };

/** As long as the kernel allows (`net.core.somaxconn`): what sshd says while this thread is stopped waits there. */
const BACKLOG = 65_535;

/** No message is this long; whoever sends more is not sshd. */
const MESSAGE_LIMIT = 8192;

/** sshd writes at once after connecting. A connection that stays silent must not hold up the others, in ms. */
const SILENCE_LIMIT = 1000;

/** Between two batches of many, in ms: each costs both threads more than a message does. */
const GATHER = 2;
/** After a pause so many batches go at once: a small file is two messages, and its webhook waits for the second. */
const AT_ONCE = 4;

interface Incoming {
  readonly at: Micros;
  text: string;
  done: boolean;
}

const port = parentPort;
if (!port) throw new Error('this file is the transfer log’s worker thread');

const clock = systemClock();
const servers: Server[] = [];
let queue: Incoming[] = [];
let flushing = false;
/** When the next batch may go; what lies in the past is credit. */
let due = Number.NEGATIVE_INFINITY;

port.on('message', (message: ToWorker) => {
  if (message.kind === 'listen') listen(message.path);
  else close();
});

function listen(path: string): void {
  rmSync(path, { force: true }); // a socket of an earlier process; nobody listens on it any more
  const server = createServer({ pauseOnConnect: false }, accept);
  servers.push(server);
  server.on('error', (error) => post({ kind: 'failed', path, reason: error.message }));
  server.listen({ path, backlog: BACKLOG }, () => {
    chmodSync(path, 0o666); // the folder above it decides who may reach it
    post({ kind: 'listening' });
  });
}

function accept(socket: Socket): void {
  const incoming: Incoming = { at: clock.now(), text: '', done: false };
  queue.push(incoming);
  socket.setEncoding('latin1');
  // After the timers Node looks at the sockets: what was sent while this process stood still is there by then.
  socket.setTimeout(SILENCE_LIMIT, () => setImmediate(() => socket.destroy()));
  socket.on('data', (chunk: string) => {
    incoming.text += chunk;
    // glibc ends a message on a stream socket with a NUL (misc/syslog.c).
    if (chunk.endsWith('\0')) finish(incoming);
    if (incoming.text.length > MESSAGE_LIMIT) socket.destroy();
  });
  socket.on('error', () => finish(incoming));
  socket.on('close', () => finish(incoming));
}

function finish(incoming: Incoming): void {
  incoming.done = true;
  if (flushing || !queue[0]?.done) return;
  flushing = true;
  const wait = due - performance.now();
  if (wait > 0) setTimeout(flush, wait);
  // After the reads of this turn, so that a burst becomes one batch.
  else setImmediate(flush);
}

function flush(): void {
  flushing = false;
  due = Math.max(due, performance.now() - AT_ONCE * GATHER) + GATHER;
  const next = queue.findIndex((incoming) => !incoming.done);
  const ready = next === -1 ? queue : queue.slice(0, next);
  queue = next === -1 ? [] : queue.slice(next);
  const lines = ready.flatMap(({ at, text }) => text.split('\0').flatMap((part) => readLine(part, at)));
  if (lines.length > 0) post({ kind: 'lines', lines });
}

function readLine(part: string, at: Micros): Line[] {
  if (part.startsWith(MARK)) return [{ at, pid: 0, text: part }];
  const frame = readFrame(part);
  return frame ? [{ at, ...frame }] : [];
}

function close(): void {
  for (const server of servers) server.close();
  flush();
  port?.close();
}

function post(message: FromWorker): void {
  port?.postMessage(message);
}
