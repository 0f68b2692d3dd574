/**
 * Files under temporary names, which wait for their session to rename them: when it is over without that, they are
 * announced as they are, the oldest first. A sweep finds those whose session ended unseen: berth was down, or a backup
 * was restored.
 */
import { type Kysely, sql } from 'kysely';
import type { Clock } from '../clock.ts';
import type { Tables } from '../db/schema.ts';
import type { Transact } from '../webhooks/dispatcher.ts';
import { pathOf } from './file-path.ts';
import type { Jail } from './jails.ts';
import type { BySession, Removal } from './record/evidence.ts';
import type { Ledger } from './record/ledger.ts';

/** Rows of a query at most. */
const PAGE = 1000;
/** A literal, so that the index of just these can be used. */
const WAITING = sql.lit('waiting' as const);

export interface WaitingFilesOptions {
  readonly reads: Kysely<Tables>;
  /** Whose directories are looked after. */
  readonly node: string;
  readonly clock: Clock;
  readonly ledger: Pick<Ledger, 'sessionEnded'>;
  /** Runs transactions one after the other, those that record uploads among them. */
  readonly transact: Transact;
  /** The processes that serve the directory's sessions. */
  livePids(directoryId: string): readonly number[];
  /** Resolves when at most `left` looks are due or under way. */
  drained(left: number): Promise<void>;
}

interface Ended {
  readonly jail: Jail;
  /** Null for files of no known session, undefined for those of all. */
  readonly pid?: number | null;
  readonly end: Removal;
}

export class WaitingFiles {
  readonly #options: WaitingFilesOptions;
  #ended: Ended[] = [];
  #announcing: Promise<void> | undefined;
  /** Sessions that have left some and that the last sweep found to be over. */
  #orphans = new Set<string>();

  constructor(options: WaitingFilesOptions) {
    this.#options = options;
  }

  /** A session has been removed from the live ones. Resolves when what it left is on its way to be announced. */
  sessionEnded(jail: Jail, by: BySession, at: Removal['at']): Promise<void> {
    this.#ended.push({ jail, pid: by.pid, end: { by, at } });
    this.#announcing ??= this.#announceEnded().finally(() => (this.#announcing = undefined));
    return this.#announcing;
  }

  /** No session of that directory is left. */
  async abandoned(jail: Jail): Promise<void> {
    await this.#announce({ jail, end: { by: undefined, at: this.#options.clock.now() } });
  }

  /** Two sweeps have to agree: sessions that were there before are taken up one by one. */
  async sweep(): Promise<void> {
    const { clock, livePids } = this.#options;
    const sessions = await this.#sessions().execute();
    const over = sessions.filter(({ id, session_pid: pid }) => pid === null || !livePids(id).includes(pid));
    const known = this.#orphans;
    const keyOf = ({ id, session_pid }: (typeof over)[number]): string => `${id} ${session_pid}`;
    this.#orphans = new Set(over.map(keyOf));
    for (const orphan of over.filter((each) => known.has(keyOf(each)))) {
      const { id, sftp_username, session_pid: pid } = orphan;
      await this.#announce({ jail: { id, sftp_username }, pid, end: { by: undefined, at: clock.now() } });
    }
  }

  async #announceEnded(): Promise<void> {
    while (this.#ended.length > 0) {
      const ended = this.#ended.splice(0);
      // A transaction that began while the session was live may be about to commit one more of its files.
      await this.#options.transact(async () => ({ value: undefined, destinations: [] }));
      for (const each of ended) await this.#announce(each);
    }
  }

  async #announce({ jail, pid, end }: Ended): Promise<void> {
    const { ledger, drained } = this.#options;
    let after = { uploaded_at: Number.MIN_SAFE_INTEGER, id: '' };
    for (;;) {
      const { uploaded_at, id } = after;
      let query = this.#rows(jail).where(({ eb, refTuple, tuple }) =>
        eb(refTuple('uploaded_at', 'id'), '>', tuple(uploaded_at, id)),
      );
      if (pid !== undefined) query = query.where('session_pid', pid === null ? 'is' : '=', pid);
      const left = await query.execute();
      for (const { path } of left) ledger.sessionEnded(jail, pathOf(path), end);
      const last = left.at(-1);
      if (!last || left.length < PAGE) return;
      after = last;
      await drained(PAGE);
    }
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

  #rows({ id }: Jail) {
    return this.#options.reads
      .selectFrom('files')
      .select(['id', 'path', 'uploaded_at'])
      .where('state', '=', WAITING)
      .where('directory_id', '=', id)
      .orderBy('uploaded_at')
      .orderBy('id')
      .limit(PAGE);
  }
}
