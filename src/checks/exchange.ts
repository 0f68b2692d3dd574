/** Checkers say whether a file may be announced. Sends one its question and a file over a socket, and reads its answer. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { CheckPlace } from '../base/config.ts';
import { errorMessage } from '../base/errors.ts';

export interface CheckedFile {
  readonly directoryId: string;
  readonly username: string;
  /** Below the directory, as bytes. */
  readonly path: Buffer;
  readonly size: number;
  /** The bytes, once. What it throws, `check` throws. */
  readonly content: AsyncIterable<Buffer>;
}

export type Verdict = { readonly isPassed: true } | { readonly isPassed: false; readonly reason: string };

export interface Checker {
  /**
   * @param seconds how long it may take
   * @throws {CheckerAway} when there is no checker, {CheckFailed} when this file could not be checked.
   */
  check(file: CheckedFile, seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Resolves with how the checker calls itself. Throws as `check`. */
  hello(seconds: number): Promise<string>;
}

/** Nobody can be asked: the checker is not running, or is overloaded. */
export class CheckerAway extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CheckerAway';
  }
}

/** The checker did not say whether this file is good: no answer in time, one that makes no sense, or a failure of its own. */
export class CheckFailed extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CheckFailed';
  }
}

/** Bytes of an answer that are read. */
const LONGEST_ANSWER = 4096;

export interface Exchange {
  readonly place: CheckPlace;
  /** The bytes to send. */
  readonly pieces: AsyncIterable<Buffer> | Iterable<Buffer>;
  /** Whether the end of what is sent is that of the stream; otherwise the checker sees it by what was sent. */
  readonly endsStream: boolean;
  readonly seconds: number;
  readonly signal?: AbortSignal;
}

/** The answer, and whether all had been sent before it came. Throws as `Checker.check`, and what `pieces` throws. */
export async function exchange(options: Exchange): Promise<{ readonly answer: string; readonly isAllSent: boolean }> {
  const { place, pieces, endsStream, seconds, signal } = options;
  const late = AbortSignal.timeout(seconds * 1000);
  const socket = connect({ ...place, allowHalfOpen: true });
  const stop = (): void => void socket.destroy(new CheckFailed(`no answer within ${seconds} s`));
  late.addEventListener('abort', stop);
  signal?.addEventListener('abort', stop);
  const answered = answerOf(socket);
  // `send` and the caller await the same promise: without a handler here, a failure between them would be unhandled.
  answered.catch(() => undefined);
  try {
    signal?.throwIfAborted();
    const isAllSent = await send(socket, pieces, answered);
    if (isAllSent && endsStream) socket.end();
    return { answer: await answered, isAllSent };
  } finally {
    late.removeEventListener('abort', stop);
    signal?.removeEventListener('abort', stop);
    socket.destroy();
  }
}

/** False when the checker answered, or hung up, before all was sent. */
async function send(socket: Socket, pieces: Exchange['pieces'], answered: Promise<string>): Promise<boolean> {
  let isOver = false;
  const over = answered.then(
    () => (isOver = true),
    () => (isOver = true),
  );
  for await (const piece of pieces) {
    if (isOver) return false;
    if (!socket.write(piece)) await Promise.race([once(socket, 'drain').catch(() => undefined), over]);
  }
  return !isOver;
}

/** All that comes until the checker ends the connection. */
async function answerOf(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  let isConnected = false;
  let failure: unknown;
  socket.on('connect', () => (isConnected = true));
  socket.on('data', (piece: Buffer) => {
    if (length < LONGEST_ANSWER) pieces.push(piece);
    length += piece.length;
  });
  // An error while sending is no failure if there is an answer.
  socket.on('error', (error) => (failure ??= error));
  await new Promise<void>((resolve) => {
    socket.once('end', resolve);
    socket.once('close', () => resolve());
  });
  const answer = Buffer.concat(pieces).subarray(0, LONGEST_ANSWER).toString();
  if (answer !== '') return answer;
  if (failure instanceof CheckFailed) throw failure;
  if (!isConnected)
    throw new CheckerAway(`the checker cannot be reached: ${errorMessage(failure)}`, { cause: failure });
  throw new CheckFailed('the checker ended the connection without an answer', { cause: failure });
}
