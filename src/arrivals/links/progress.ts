/**
 * Which bytes of its file a single-use link has sent, and which it is sending. Viewers of ZIP and PDF files fetch a file in
 * many parts and in any order, so the link is used once all bytes were sent.
 *
 * Promise: while parts that were sent or are being sent make up the file, no other part is sent. So the request that adds the
 * last missing byte is the only one that gets it, and no two clients get the whole file.
 */
import type { LinksTable } from '../../foundation/db/schema.ts';

/** The bytes from the first number to before the second. */
export type Part = readonly [start: number, end: number];

/** A file as it was when a request began to send it. */
export interface SentFile {
  /** Its entity tag. A file that has changed starts again. */
  readonly tag: string;
  readonly size: number;
}

/** More separate parts count as the whole file. */
const MOST_PARTS = 500;

interface Sent {
  readonly tag: string;
  readonly parts: readonly Part[];
}

export interface Progress {
  readonly sent: readonly Part[];
  /** The part of each request that is being answered. */
  readonly sending: Readonly<Record<string, Part>>;
}

export function progressOf({ sent, sending }: Pick<LinksTable, 'sent' | 'sending'>, tag: string): Progress {
  const before = sent === null ? undefined : (JSON.parse(sent) as Sent);
  if (before?.tag !== tag) return { sent: [], sending: {} };
  return { sent: before.parts, sending: JSON.parse(sending ?? '{}') as Progress['sending'] };
}

export function stored({ sent, sending }: Progress, tag: string): Pick<LinksTable, 'sent' | 'sending'> {
  return {
    sent: JSON.stringify({ tag, parts: sent } satisfies Sent),
    sending: Object.keys(sending).length === 0 ? null : JSON.stringify(sending),
  };
}

/** Joins parts that overlap or touch. */
export function joined(parts: readonly Part[]): Part[] {
  const all: Part[] = [];
  for (const [start, end] of parts.toSorted((a, b) => a[0] - b[0])) {
    const last = all.at(-1);
    if (last && start <= last[1]) all[all.length - 1] = [last[0], Math.max(last[1], end)];
    else all.push([start, end]);
  }
  return all;
}

/** Whether the parts make up the file. */
export function isWhole(parts: readonly Part[], size: number): boolean {
  const all = joined(parts);
  const [first] = all;
  return all.length > MOST_PARTS || (first !== undefined && first[0] === 0 && first[1] >= size);
}

/**
 * What counts as sent of a part whose request was cut off after it had read `bytes` of it. The client may have received as
 * many; it resumes there at the latest. The last byte does not count, so that something is left to resume.
 */
export function cutOff([start, end]: Part, bytes: number): Part[] {
  const sent = Math.min(start + bytes, end - 1);
  return sent > start ? [[start, sent]] : [];
}
