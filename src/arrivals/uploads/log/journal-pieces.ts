/** Reads a journal's file piece by piece, for the listener and the reader: neither holds a whole file in memory. */
import { readSync } from 'node:fs';
import { type Base, BASE_START, parseBase } from './journal-record.ts';

/** How many bytes are read at once. */
export const PIECE = 64 * 1024;

/**
 * No record is longer than that, in bytes. It has at most 94 paths of 4 KiB: 64 of descriptors, and 30 of files whose names begin
 * alike. JSON may make them six times as long.
 */
const LONGEST = 4 * 1024 * 1024;

/** Stands for a line that is no record. */
const LOST = 'lost';

const NEWLINE = 0x0a;

/** Up to `length` bytes of an open file, fewer at its end. */
export function readPiece(file: number, from: number, length = PIECE): Buffer {
  const piece = Buffer.allocUnsafe(length);
  return piece.subarray(0, readSync(file, piece, 0, length, from));
}

/** The base of an open file, and the length of its line in bytes; 0 without a base. */
export function readBase(file: number): Base & { readonly length: number } {
  const none = { base: 0, length: 0 };
  if (!readPiece(file, 0, BASE_START.length).equals(BASE_START)) return none;
  const pieces: Buffer[] = [];
  let length = 0;
  for (let isWhole = false; !isWhole;) {
    const piece = readPiece(file, length);
    if (piece.length === 0) return none;
    const end = piece.indexOf(NEWLINE) + 1;
    isWhole = end > 0;
    pieces.push(isWhole ? piece.subarray(0, end) : piece);
    length += isWhole ? end : piece.length;
  }
  const found = parseBase(Buffer.concat(pieces).toString('utf8'));
  return found ? { ...found, length } : none;
}

/**
 * The complete lines of an open file after a position, each with the position where it ends. A line that is longer than any record
 * shows that the disk has lost data, and its text is `LOST`.
 */
export function* linesOf(file: number, from: number): Generator<{ readonly text: string; readonly end: number }> {
  let unread: Buffer = Buffer.alloc(0);
  let start = from;
  let isTooLong = false;
  for (;;) {
    const piece = readPiece(file, start + unread.length);
    if (piece.length === 0) return;
    unread = unread.length === 0 ? piece : Buffer.concat([unread, piece]);
    let at = 0;
    for (let end = unread.indexOf(NEWLINE) + 1; end > 0; end = unread.indexOf(NEWLINE, at) + 1) {
      yield { text: isTooLong ? LOST : unread.toString('utf8', at, end - 1), end: start + end };
      isTooLong = false;
      at = end;
    }
    isTooLong ||= unread.length - at > LONGEST;
    if (isTooLong) at = unread.length;
    unread = unread.subarray(at);
    start += at;
  }
}
