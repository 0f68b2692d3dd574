/**
 * A record of the journal: a line that sshd logged, and the status of the files that it names. A user's file holds one
 * record per line, as JSON. Its first line may be a `Base`, which replaces the records that a compaction removed.
 */
import type { Micros } from '../../../foundation/base/clock.ts';
import type { HeldPath } from '../processes.ts';

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

export interface JournalRecord {
  /** When the line was read. Records of one machine differ in this time. */
  readonly at: Micros;
  /** The process that wrote the line; 0 for a gap. */
  readonly pid: number;
  readonly text: string;
  /** The client's address; '' when it is not known. */
  readonly address: string;
  /**
   * When the session's process began, in clock ticks since the boot (proc_pid_stat(5)). Only in the session's first
   * record.
   */
  readonly born?: string | undefined;
  /**
   * What was at the line's paths: one path for an open, a close, a removal, a new size and a folder's making, two for a rename, and those of the
   * previous request for a failure. Null where there was no file; missing when nobody looked. Older versions wrote one
   * observation without a list.
   */
  readonly seen?: readonly (Observation | null)[] | Observation | null | undefined;
  /**
   * Of an open or a close whose name the log has cut off: the files that it may mean and that the process had open for
   * writing. Undefined when the process could not be asked.
   */
  readonly held?: readonly HeldPath[] | undefined;
  /** Lines are missing between this record and the next. */
  readonly isGap?: true | undefined;
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
export function readRecord(text: string): JournalRecord | undefined {
  return parsed(text) as JournalRecord | undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
