/**
 * A record of the journal: a line of sshd's log with what lay at the paths that it names. A user's file has one record a
 * line, as JSON. Its first line may be a `Base`, what a compaction left of the lines before.
 */
import type { Micros } from '../../clock.ts';

/** What lay at a path when a line was read. */
export interface Sighting {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
}

export interface JournalRecord {
  /** When the line was read. No two records of a machine have the same. */
  readonly at: Micros;
  /** The process that wrote the line; 0 for a gap. */
  readonly pid: number;
  readonly text: string;
  /** The client's; '' when it is not known. */
  readonly address: string;
  /** When the session's process began, in clock ticks since the boot (proc_pid_stat(5)), in the record of its first line. */
  readonly born?: string | undefined;
  /**
   * For an open, a close and a removal what lay at its path; for a rename, at both; for a status, at those of the request
   * before it. Null for nothing; left out when nobody looked. An earlier berth wrote one without a list.
   */
  readonly seen?: readonly (Sighting | null)[] | Sighting | null | undefined;
  /** Lines between here and the next record are missing. */
  readonly isGap?: true | undefined;
}

/** A session that was live, with whatever else its follower keeps of it. */
export interface BaseSession {
  readonly by: { readonly pid: number; readonly address: string };
}

/** What is known of all that came before a position, as far as a later process needs it. */
export interface Known {
  /** The sessions that were live, as whoever follows the journal knows them; undefined for none. */
  readonly state?: readonly BaseSession[] | undefined;
  /** Until when lines were lost, if any were. */
  readonly doubtedUntil?: Micros | undefined;
}

/** What a compaction leaves of the records before a position. */
export interface Base extends Known {
  /** How many bytes came before, since the user's first line. */
  readonly base: number;
}

/** A position counts the bytes of all records since the user's first line, also of those that a compaction removed. */
export type Position = number;

/** The base of a file, and how long its line is. */
export function readBase(text: string): Base & { readonly length: number } {
  const none = { base: 0, length: 0 };
  if (!text.startsWith('{"base":')) return none;
  const end = text.indexOf('\n') + 1;
  const found = parsed(text.slice(0, end)) as Base | undefined;
  return found ? { ...found, length: end } : none;
}

/** Undefined for what a crash has cut off. */
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
