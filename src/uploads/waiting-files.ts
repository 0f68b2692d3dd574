/**
 * Files under temporary names, which wait for their session to rename them: when it is over without that, they are
 * announced as they are. A sweep finds those whose session ended unseen: berth was down, or a backup was restored.
 */
import { type Kysely, sql } from 'kysely';
import type { Clock, Micros } from '../clock.ts';
import type { Tables } from '../db/schema.ts';
import { pathOf } from './file-path.ts';
import type { Jail } from './jails.ts';
import type { BySession } from './record/evidence.ts';
import type { Ledger } from './record/ledger.ts';

/** Rows of a query at most, which are of one session or of one directory: nobody's many hide those of others. */
const MANY = 1000;
/** A literal, so that the index of just these can be used. */
const WAITING = sql.lit('waiting' as const);

export interface WaitingFilesOptions {
  readonly reads: Kysely<Tables>;
  /** Whose directories are looked after. */
  readonly node: string;
  readonly clock: Clock;
  readonly ledger: Pick<Ledger, 'sessionEnded'>;
  /** The processes that serve the directory's sessions. */
  livePids(directoryId: string): readonly number[];
  /** Whether it is still to be found out which those are. */
  isRestoring?(username: string): boolean;
}

export class WaitingFiles {
  readonly #options: WaitingFilesOptions;
  /** Rows that the last sweep found without a session. */
  #orphans = new Set<string>();

  constructor(options: WaitingFilesOptions) {
    this.#options = options;
  }

  async sessionEnded(jail: Jail, by: BySession, at: Micros): Promise<void> {
    const left = await this.#rows().where('directory_id', '=', jail.id).where('session_pid', '=', by.pid).execute();
    for (const { path } of left) this.#options.ledger.sessionEnded(jail, pathOf(path), { by, at });
  }

  /** No session of that directory is left. */
  async abandoned(jail: Jail): Promise<void> {
    const at = this.#options.clock.now();
    const left = await this.#rows().where('directory_id', '=', jail.id).execute();
    for (const { path } of left) this.#options.ledger.sessionEnded(jail, pathOf(path), { by: undefined, at });
  }

  /** Two sweeps have to agree: sessions that were there before are taken up one by one. */
  async sweep(): Promise<void> {
    const { clock, ledger, livePids, isRestoring = () => false } = this.#options;
    const left = await this.#sessions().execute();
    const sessions = left.filter(({ sftp_username: username }) => !isRestoring(username));
    const isOver = ({ id, session_pid: pid }: (typeof sessions)[number]): boolean =>
      pid === null || !livePids(id).includes(pid);
    const orphans = [];
    for (const { id, session_pid: pid } of sessions.filter(isOver)) {
      const own = this.#rows()
        .where('directory_id', '=', id)
        .where('session_pid', pid === null ? 'is' : '=', pid);
      orphans.push(...(await own.execute()));
    }
    for (const { id, sftp_username, file, path } of orphans) {
      if (!this.#orphans.has(file)) continue;
      ledger.sessionEnded({ id, sftp_username }, pathOf(path), { by: undefined, at: clock.now() });
    }
    this.#orphans = new Set(orphans.map(({ file }) => file));
  }

  /** Who left any: by the index alone, where SQLite skips the rows of one session. */
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
