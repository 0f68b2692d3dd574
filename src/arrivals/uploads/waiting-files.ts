/**
 * Announces files under temporary names whose session ended unseen, because berth was down or a backup was restored.
 * The end of any other session is an operation, which announces what the session left (`story/apply.ts`).
 */
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../foundation/db/schema.ts';
import { type FilePath, pathOf } from './file-path.ts';
import type { Jail } from './jails.ts';

/**
 * The most rows of a query. A query is for one session or one directory, so that many files of one do not hide those of
 * others.
 */
const MANY = 1000;
/** A literal, so that the partial index on this state can be used. */
const WAITING = sql.lit('waiting' as const);

export interface WaitingFilesOptions {
  readonly reads: Kysely<Tables>;
  /** The node whose directories are served. */
  readonly node: string;
  /** The processes that serve the directory's sessions. */
  livePids(directoryId: string): readonly number[];
  /** Whether the live sessions of the user are not all known yet. */
  isRestoring(username: string): boolean;
  /** Called with a file whose session is over. */
  abandoned(jail: Jail, path: FilePath): void;
}

export class WaitingFiles {
  readonly #options: WaitingFilesOptions;
  /** Rows that the last sweep found without a session. */
  #orphans = new Set<string>();

  constructor(options: WaitingFilesOptions) {
    this.#options = options;
  }

  /** Reports the waiting files of a directory that has no session left. */
  async abandonedIn(jail: Jail): Promise<void> {
    const left = await this.#rows().where('directory_id', '=', jail.id).execute();
    for (const { path } of left) this.#options.abandoned(jail, pathOf(path));
  }

  /**
   * Reports waiting files without a session. Two sweeps have to agree, because existing sessions are adopted one by
   * one.
   */
  async sweep(): Promise<void> {
    const { livePids, isRestoring, abandoned } = this.#options;
    const sessions = await this.#sessions().execute();
    const orphans = [];
    for (const { id, sftp_username: username, session_pid: pid } of sessions) {
      if (isRestoring(username) || (pid !== null && livePids(id).includes(pid))) continue;
      const own = this.#rows()
        .where('directory_id', '=', id)
        .where('session_pid', pid === null ? 'is' : '=', pid);
      orphans.push(...(await own.execute()));
    }
    for (const { id, sftp_username, file, path } of orphans) {
      if (this.#orphans.has(file)) abandoned({ id, sftp_username }, pathOf(path));
    }
    this.#orphans = new Set(orphans.map(({ file }) => file));
  }

  /**
   * The sessions that left waiting files. The query uses the index alone, where SQLite skips from one session to the
   * next.
   */
  #sessions() {
    const { reads, node } = this.#options;
    const left = reads
      .selectFrom('files')
      .select(['directory_id', 'session_pid'])
      .distinct()
      .where('state', '=', WAITING)
      .as('left');
    return reads
      .selectFrom(left)
      .innerJoin('directories', 'directories.id', 'left.directory_id')
      .select(['directories.id', 'sftp_username', 'session_pid'])
      .where('node', '=', node);
  }

  #rows() {
    const { reads, node } = this.#options;
    return reads
      .selectFrom('files')
      .innerJoin('directories', 'directories.id', 'files.directory_id')
      .select(['directories.id', 'sftp_username', 'files.id as file', 'path'])
      .where('files.state', '=', WAITING)
      .where('node', '=', node)
      .limit(MANY);
  }
}
