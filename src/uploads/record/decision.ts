/** The terms of a decision: what is known when a file is looked at (`Look`), and what follows (`Effects`, or a `Wait`). */
import type { Micros } from '../../clock.ts';
import type { FilesTable } from '../../db/schema.ts';
import type { FilePath, IsTemporary } from '../file-path.ts';
import type { BySession, Close, Removal, Rename } from './evidence.ts';
import type { FileStat } from './file-stat.ts';

/** A row of the table of files, as far as the decision needs it. */
export type Recorded = Readonly<Omit<FilesTable, 'directory_id'>>;

export interface Look {
  readonly path: FilePath;
  readonly now: Micros;
  /** The regular file that is there. */
  readonly stat: FileStat | undefined;
  /** What is recorded at that path. */
  readonly row: Recorded | undefined;
  /** Whether the API has put that very file there, or wherever it came from since. */
  readonly isPlaced: boolean;
  /** What is recorded of that inode at another path, where that file is no longer. */
  readonly twin: Recorded | undefined;
  /** A row that was removed lately, of a file that was the same. */
  readonly removedRow: Recorded | undefined;

  readonly closes: readonly Close[];
  readonly rename: Rename | undefined;
  readonly removal: Removal | undefined;
  /** The end of the session that left it under a temporary name. */
  readonly sessionEnd: Removal | undefined;
  /** Whether the log spoke of it so lately that it may not have happened yet. */
  readonly isFresh: boolean;
  /** Whether it was opened for writing since its last close. */
  readonly isReopened: boolean;
  /** Whether a client set its times or size lately. */
  readonly wasSet: boolean;
  /** What was there before all that the log had to say until then was heard; null for nothing. */
  readonly seen: FileStat | null | undefined;

  /** What is on the disk for certain, even after a power cut. */
  readonly synced: FileStat | undefined;
  /** It has not changed for a while. */
  readonly isRested: boolean;
  /** It has been missing for a while. */
  readonly isGone: boolean;
  /** Nobody holds it open, by the kernel's word, and the log has nothing more to say. */
  readonly isUnexplained: boolean;
  /** It was last changed when the log was not kept: before a power cut, say. */
  readonly isDoubted: boolean;
  readonly isTemporary: IsTemporary;
  /** The processes that serve the directory's live sessions, which may still rename a temporary name. */
  readonly livePids: readonly number[];
}

/** What has to happen before it can be decided. */
export type Wait =
  /** The log has to be heard up to now. */
  | 'barrier'
  /** The file and its name have to be on the disk. */
  | 'sync'
  /** The kernel has to say that nobody holds it open, and the log nothing at all. */
  | 'explanation'
  /** It has to rest or be missing for a while, or the log's word has to come true. */
  | 'rest';

export interface Announcement {
  readonly path: FilePath;
  readonly from?: FilePath | undefined;
  readonly at: Micros;
  readonly bytes: number;
  readonly by?: BySession | undefined;
  readonly openedAt?: Micros | undefined;
}

/** For the history. */
export interface Event extends Announcement {
  readonly event: 'upload-dropped' | 'renamed' | 'removed';
}

export type NewRow = Omit<Recorded, 'id' | 'path'>;

export interface Effects {
  readonly announce: readonly Announcement[];
  readonly events: readonly Event[];
  /** Written at the path in place of these rows, as a new upload or, with an id, as that one. */
  readonly put?: { readonly row: NewRow; readonly id?: string | undefined };
  /** This row changes, and perhaps moves to the path. */
  readonly change?: { readonly of: Recorded; readonly to: Partial<NewRow> };
  readonly remove?: Recorded;
  /** Uploads whose file was not seen: it may be elsewhere. */
  readonly unmatched?: readonly Close[];
  /** The file is not where the log or its row has it: the directory is scanned, and the path looked at again. */
  readonly isLost?: boolean;
}

export type Decision = { readonly wait: Wait; readonly isLost?: boolean } | Effects;
