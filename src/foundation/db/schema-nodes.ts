/**
 * The tables for several machines on one database (migrations 006 and 007). With SQLite there is one machine, without a name.
 */
import type { Generated } from 'kysely';
import type { Micros } from '../base/clock.ts';

/** A machine that runs berth and sshd, and keeps the jails of its own directories. */
export interface NodesTable {
  name: string;
  sftp_host: string;
  sftp_port: number;
  /** Free space on the disk of its jails. */
  free_bytes: number;
  /** When the node last reported, by the database's clock. */
  seen_at: Micros;
  /** Since when the node gets no new directories; null if it gets some. */
  drained_at: Micros | null;
  /**
   * The reason why no quota can be set on the node, as a message for a caller. Null when quotas can be set, and until the node has
   * reported.
   */
  quota_obstacle: Generated<string | null>;
  /** The node's BERTH_API_URL. */
  api_url: Generated<string | null>;
  inserted_at: Micros;
}

/**
 * Directories whose jail, credentials or disk limit may differ from their row. A change writes its row here in its transaction, and the
 * row is removed when the disk matches. If a crash leaves rows, the next start applies them before it serves.
 */
export interface PendingApplyTable {
  directory_id: string;
  /** The directory's version when the row was written. */
  version: Generated<number>;
  /** The version that its node has applied; 0 for none. The row stays until a power cut can no longer undo that. */
  done: Generated<number>;
}

/** The remains on a node of a directory that has moved to another one. The node removes them. */
export interface LeftoversTable {
  node: string;
  directory_id: string;
  sftp_username: string;
  uid: number;
}

/**
 * Deletions that were answered with an error because the directory's node was unavailable. For a day, a repeated
 * request is answered from here.
 */
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
  /** Minutes since 1970. */
  minute: number;
  requests: number;
}

/** A single row that is copied with the data. It shows whether a backup and a database belong together. */
export interface InstallationTable {
  id: string;
  /** PostgreSQL only: how many backups of machines have been made. */
  backups: number;
}

export interface NodeTables {
  installation: InstallationTable;
  nodes: NodesTable;
  unapplied: PendingApplyTable;
  leftovers: LeftoversTable;
  unanswered_deletions: UnansweredDeletionsTable;
  request_counts: RequestCountsTable;
}
