/** The directories that hold uploads. Each is the jail of one SFTP user. */
import { setTimeout } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { isUnavailable } from '../../foundation/base/errors.ts';
import type { Tables } from '../../foundation/db/schema.ts';

export interface Jail {
  /** The directory's id. */
  readonly id: string;
  readonly sftp_username: string;
}

/** The pause between two attempts, in ms. */
const RETRY_MS = 500;

/** Queries that retry until the database answers, because the journal's consumer cannot continue without an answer. */
export function untilAnswered(
  jails: Pick<JailQueries, 'byUsername' | 'byUid'>,
  signal: AbortSignal,
): Pick<JailQueries, 'byUsername' | 'byUid'> {
  async function asking<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!isUnavailable(error) || signal.aborted) throw error;
        await setTimeout(RETRY_MS, undefined, { signal }).catch(() => undefined);
      }
    }
  }
  return {
    byUsername: (username) => asking(() => jails.byUsername(username)),
    byUid: (uid) => asking(() => jails.byUid(uid)),
  };
}

/** Reads the live directories of a node. */
export class JailQueries {
  readonly #reads: Kysely<Tables>;
  readonly #node: string;

  constructor(reads: Kysely<Tables>, node: string) {
    this.#reads = reads;
    this.#node = node;
  }

  byUsername(username: string): Promise<Jail | undefined> {
    return this.#live().where('sftp_username', '=', username).executeTakeFirst();
  }

  byUid(uid: number): Promise<Jail | undefined> {
    return this.#live().where('uid', '=', uid).executeTakeFirst();
  }

  byId(id: string): Promise<Jail | undefined> {
    return this.#live().where('id', '=', id).executeTakeFirst();
  }

  /** Jails after an id, in the order of their ids. */
  after(id: string, limit: number): Promise<Jail[]> {
    return this.#live().where('id', '>', id).orderBy('id').limit(limit).execute();
  }

  async count(): Promise<number> {
    const { count } = await this.#reads
      .selectFrom('directories')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('node', '=', this.#node)
      .where('deleted_at', 'is', null)
      .executeTakeFirstOrThrow();
    return count;
  }

  #live() {
    return this.#reads
      .selectFrom('directories')
      .select(['id', 'sftp_username'])
      .where('node', '=', this.#node)
      .where('deleted_at', 'is', null);
  }
}
