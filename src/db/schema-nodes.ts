/** The tables of several machines on one database (migrations 006 and 007). With SQLite there is one, which has no name. */
import type { Generated } from 'kysely';
import type { Micros } from '../clock.ts';

/** A machine that runs berth and sshd, and keeps the jails of its own directories. */
export interface NodesTable {
  name: string;
  sftp_host: string;
  sftp_port: number;
  /** On the disk of its jails. */
  free_bytes: number;
  /** When it said last that it lives, by the database's clock. */
  seen_at: Micros;
  /** Since when it gets no new directories; null while it does. */
  drained_at: Micros | null;
  /** Why no quota can be set there, in words for a caller; null when it can, and until a node has said it. */
  quota_obstacle: Generated<string | null>;
  /** Its BERTH_API_URL. */
  api_url: Generated<string | null>;
  inserted_at: Micros;
}

/** Columns of a directory. */
export interface AtHome {
  /** The node that has its jail. */
  node: string;
  /** Counts its changes, which the clocks of several machines cannot put in order. */
  version: number;
}

/**
 * Directories whose jail, credentials or limit on disk may differ from their row. Written with the change itself,
 * removed when the disk follows: what a crash leaves here, the next start applies before it serves.
 */
export interface UnappliedTable {
  directory_id: string;
  /** The directory's when it was marked. */
  version: Generated<number>;
  /** The version that its home has applied; 0 for none. The row stays until no power cut can undo that. */
  done: Generated<number>;
}

/** What a node still has of a directory that has gone to another one. It removes that. */
export interface LeftoversTable {
  node: string;
  directory_id: string;
  sftp_username: string;
  uid: number;
}

/** Deletions whose callers were told that the home is away: what a repetition is answered by, for a day. */
export interface UnansweredDeletionsTable {
  directory_id: string;
  account_id: string;
  node: string;
  version: number;
  sftp_username: string;
  uid: number;
  inserted_at: Micros;
}

/** PostgreSQL only: requests of an account in a clock minute, over all nodes. */
export interface RequestCountsTable {
  account_id: string;
  /** Since 1970. */
  minute: number;
  requests: number;
}

/** One row, which goes with the data wherever they are copied: tells whether a backup and a database belong together. */
export interface InstallationTable {
  id: string;
  /** PostgreSQL only: backups of machines that have been made. */
  backups: number;
}

export interface NodeTables {
  installation: InstallationTable;
  nodes: NodesTable;
  unapplied: UnappliedTable;
  leftovers: LeftoversTable;
  unanswered_deletions: UnansweredDeletionsTable;
  request_counts: RequestCountsTable;
}
