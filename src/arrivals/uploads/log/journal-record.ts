/**
 * A record of the journal: what a line that sshd logged says, and the status of the files that it names. A user's file
 * holds one record per line, as JSON. Its first line may be a `Base`, which replaces the records that a compaction
 * removed.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import type { FilePath } from '../file-path.ts';
import type { HeldPath } from '../processes.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import type { RefusedRequest } from './refused-requests.ts';

/** The file at a path when a line was read. */
export interface Observation {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  /**
   * Since when it is there at the latest: when a folder was made, and when a file was changed or renamed last. Missing for a
   * file in a record of an older version.
   */
  readonly sinceMs?: number | undefined;
  /** When it was created; 0 where the file system does not keep that. Missing in a record of an older version. */
  readonly birthtimeMs?: number | undefined;
}

/** A file that a cut-off name may mean. */
export interface FileAlike extends Observation {
  readonly path: FilePath;
}

/** What a line says. */
export interface LineRecord {
  /** When the line was read. Records of one machine differ in this time. */
  readonly at: Micros;
  /** The process that wrote the line. */
  readonly pid: number;
  readonly event: LogEvent;
  /** The client's address; '' when it is not known. */
  readonly address: string;
  /**
   * When the session's process began, in clock ticks since the boot (proc_pid_stat(5)). Only in the session's first
   * record.
   */
  readonly born?: string | undefined;
  /**
   * What was at the line's paths: one path for an open, a close, a removal, a new size and a folder's making, two for a rename, and those of the
   * previous request for a failure. Null where there was no file; missing when nobody looked.
   */
  readonly seen?: readonly (Observation | null)[] | undefined;
  /**
   * Of an open or a close whose name the log has cut off: the files that it may mean and that the process had open for
   * writing. Undefined when the process could not be asked.
   */
  readonly held?: readonly HeldPath[] | undefined;
  /**
   * The files that a cut-off name may mean. The folder is read before the process is asked for `held`. Only in the record of a
   * close, a rename, or new times or a new size. Undefined if the folder has too many files.
   */
  readonly alike?: readonly FileAlike[] | undefined;
  /** The request that sshd has refused, if the line shows that and it is to be remembered. */
  readonly refused?: RefusedRequest | undefined;
  readonly isGap?: undefined;
}

/** Lines are missing before `at`. */
export interface Gap {
  readonly at: Micros;
  readonly isGap: true;
}

export type JournalRecord = LineRecord | Gap;

/** As older versions wrote it: the line's text, and one observation without a list. */
interface OlderRecord extends Omit<LineRecord, 'event' | 'seen' | 'isGap'> {
  readonly text: string;
  readonly seen?: LineRecord['seen'] | Observation | null;
  readonly isGap?: true;
}

/** A session that was live. The journal's consumer adds further fields. */
export interface BaseSession {
  readonly by: { readonly pid: number; readonly address: string };
}

/** The state at a position that a later process needs. */
export interface Known {
  /** The sessions that were live, as the consumer of the journal describes them; undefined for none. */
  readonly state?: readonly BaseSession[] | undefined;
  /** Until when lines were lost; undefined if none were. */
  readonly doubtedUntil?: Micros | undefined;
}

/** Replaces the records that a compaction removed. */
export interface Base extends Known {
  /** The position of the first record that is left. */
  readonly base: number;
}

/** A position counts the bytes of all records since the user's first line, also of those that a compaction removed. */
export type Position = number;

/** How a base's line begins. */
export const BASE_START = Buffer.from('{"base":');

/** The line of a base. */
export function baseLine(base: Base): string {
  return `${JSON.stringify(base)}\n`;
}

export function parseBase(line: string): Base | undefined {
  return parsed(line) as Base | undefined;
}

/** Returns undefined for a record that a crash has cut off. */
export function readRecord(line: string): JournalRecord | undefined {
  const record = parsed(line) as JournalRecord | OlderRecord | undefined;
  return record && 'text' in record ? ofThisVersion(record) : record;
}

function ofThisVersion({ text, seen, isGap, ...record }: OlderRecord): JournalRecord {
  if (isGap) return { at: record.at, isGap };
  return { ...record, event: readEvent(text), seen: seen === undefined || Array.isArray(seen) ? seen : [seen] };
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}
