/** A checker decides whether a file may be announced. `exchange` sends it a file over a socket and reads its answer. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { CheckPlace } from '../../foundation/base/config.ts';
import { errorMessage } from '../../foundation/base/errors.ts';

export interface CheckedFile {
  readonly directoryId: string;
  readonly username: string;
  /** Relative to the directory. */
  readonly path: Buffer;
  readonly size: number;
  /** Can be read once. `check` passes its errors on. */
  readonly content: AsyncIterable<Buffer>;
}

export type Verdict = { readonly isPassed: true } | { readonly isPassed: false; readonly reason: string };

export interface Checker {
  /**
   * @param seconds how long the check may take.
   * @throws {CheckerAway} when there is no checker, {CheckFailed} when this file could not be checked.
   */
  check(file: CheckedFile, seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Resolves with what the checker is: clamd's version, or the program that runs. Throws like `check`. */
  hello(seconds: number): Promise<string>;
}

/** The checker cannot be reached: it is not running, or is overloaded. */
export class CheckerAway extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CheckerAway';
  }
}

/** The checker did not decide about this file: it did not answer in time, its answer makes no sense, or it failed itself. */
export class CheckFailed extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CheckFailed';
  }
}

/** How much of an answer is read. */
const LONGEST_ANSWER_BYTES = 4096;

export interface Exchange {
  readonly place: CheckPlace;
  /** The bytes to send. */
  readonly pieces: AsyncIterable<Buffer> | Iterable<Buffer>;
  /** Whether to end the stream after the last piece. Otherwise the checker recognizes the end from the pieces. */
  readonly endsStream: boolean;
  readonly seconds: number;
  readonly signal?: AbortSignal;
}

/** The answer, and whether everything was sent before it came. Throws like `Checker.check`, and the errors of `pieces`. */
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

/** Returns false when the checker answered or hung up before everything was sent. */
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

/** Everything that the checker sends until it ends the connection, cut off at LONGEST_ANSWER_BYTES. */
async function answerOf(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  let isConnected = false;
  let failure: unknown;
  socket.on('connect', () => (isConnected = true));
  socket.on('data', (piece: Buffer) => {
    if (length < LONGEST_ANSWER_BYTES) pieces.push(piece);
    length += piece.length;
  });
  // An error while sending does not matter if there is an answer.
  socket.on('error', (error) => (failure ??= error));
  await new Promise<void>((resolve) => {
    socket.once('end', resolve);
    socket.once('close', () => resolve());
  });
  const answer = Buffer.concat(pieces).subarray(0, LONGEST_ANSWER_BYTES).toString();
  if (answer !== '') return answer;
  if (failure instanceof CheckFailed) throw failure;
  if (!isConnected)
    throw new CheckerAway(`the checker cannot be reached: ${errorMessage(failure)}`, { cause: failure });
  throw new CheckFailed('the checker ended the connection without an answer', { cause: failure });
}
