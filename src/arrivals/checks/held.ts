/** Held files, which are not announced: those whose names settle, those in check and those in the quarantine. */
import type { Kysely } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Target } from '../../rules/directories/target.ts';
import { CHECKING } from '../files/file-rows.ts';
import type { PartialFilter } from '../files/partial.ts';

export interface HeldFile {
  readonly id: string;
  readonly directory_id: string;
  readonly account_id: string;
  readonly username: string;
  readonly path: Buffer;
  readonly size_bytes: number;
  /** `settling`: its name may still change. */
  readonly state: 'settling' | 'checking' | 'rejected';
  /** When it arrived, or was rejected. */
  readonly since: Micros;
  /** Why it settles, or was rejected; for one in check, why it could not be checked, if that was tried. */
  readonly reason: string | null;
}

/** How long a name may not have changed, and the present time. */
export interface Settling {
  readonly settleSeconds: number;
  readonly now: Micros;
}

/**
 * `release` and `remove` throw {BerthError} `directory_not_found`, `upload_not_found`, `file_changed`, `file_in_use`, `home_elsewhere`,
 * `storage_full`.
 */
export interface HeldFiles {
  /** Like `heldFiles`, at this moment. */
  list(filter: PartialFilter): Promise<HeldFile[]>;
  /** Puts the file back at its path and announces it, whatever the checker says. Also throws `file_conflict`. */
  release(target: Target, fileId: string): Promise<void>;
  /** Deletes the file for good. */
  remove(target: Target, fileId: string): Promise<void>;
}

/**
 * Lists live directories' rejected files, newest first, then the others, oldest first; at most `limit` of each. If there are more of the
 * others, any of them may be missing.
 */
export async function heldFiles(
  reads: Kysely<Tables>,
  filter: PartialFilter,
  { settleSeconds, now }: Settling,
): Promise<HeldFile[]> {
  const { directories, account, files, limit } = filter;
  let rejected = reads
    .selectFrom('quarantine as q')
    .innerJoin('directories as d', 'd.id', 'q.directory_id')
    .select(['q.id', 'q.directory_id', 'd.account_id', 'd.sftp_username as username', 'q.path', 'q.size_bytes'])
    .select(['q.rejected_at as since', 'q.reason'])
    .where('q.released_at', 'is', null)
    .where('d.deleted_at', 'is', null);
  let checking = reads
    .selectFrom('files as f')
    // With this join and this order, SQLite reads the index of files in check, and not every file of each directory.
    .crossJoin('directories as d')
    .whereRef('d.id', '=', 'f.directory_id')
    .select(['f.id', 'f.directory_id', 'd.account_id', 'd.sftp_username as username', 'f.path', 'f.size_bytes'])
    .select(['f.uploaded_at as since', 'f.check_failure as reason', 'f.named_at'])
    .where('f.state', '=', CHECKING)
    .where('d.deleted_at', 'is', null);
  if (directories) {
    rejected = rejected.where('q.directory_id', 'in', directories);
    checking = checking.where('f.directory_id', 'in', directories);
  }
  if (account !== undefined) {
    rejected = rejected.where('d.account_id', '=', account);
    checking = checking.where('d.account_id', '=', account);
  }
  if (files) {
    rejected = rejected.where('q.id', 'in', files);
    checking = checking.where('f.id', 'in', files);
  }
  const [first, then] = await Promise.all([
    rejected.orderBy('q.rejected_at', 'desc').limit(limit).execute(),
    checking.orderBy('f.directory_id').orderBy('f.named_at').orderBy('f.id').limit(limit).execute(),
  ]);
  return [
    ...first.map((row) => ({ ...row, state: 'rejected' as const })),
    ...then
      .toSorted((a, b) => a.since - b.since)
      .map(({ named_at, ...row }) => {
        const settles = settleSeconds > 0 && named_at > now - settleSeconds * SECOND;
        if (!settles) return { ...row, state: 'checking' as const };
        const reason = `waits until its name has not changed for ${settleSeconds} s`;
        return { ...row, reason, state: 'settling' as const };
      }),
  ];
}
