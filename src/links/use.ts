/**
 * Decides whether a link works now. A request is checked when it arrives, and again in the transaction of its change: a link
 * that has expired, or was used or revoked in between, changes nothing.
 */
import type { Kysely, Transaction } from 'kysely';
import { DAY, type Clock, type Micros } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { hasExpired } from '../directories/access.ts';
import { isWithin } from '../directories/networks.ts';
import { BerthError } from '../base/errors.ts';
import { historyRow, recordHistory } from '../uploads/record/history.ts';
import { digestOf, isSigned, type Link } from './claims.ts';

/** How long a use is kept after its link has expired, since the clock may be set back meanwhile. */
const KEPT_FOR: Micros = DAY;

/** Stands in where a directory has no secret, so that the refusal takes as long as with one. */
const NO_SECRET = 'none';

/** A link, and the address of the client that uses it. */
export interface Visit {
  readonly link: Link;
  readonly address: string;
}

export interface LinkUses {
  /** The directory of a link that works. @throws {BerthError} `link_invalid`, `link_ended`. */
  check(visit: Visit): Promise<DirectoriesTable>;
  /** Like `check`, and uses up a single-use link with the commit of the transaction. @throws {BerthError} like `check`. */
  take(tx: Transaction<Tables>, visit: Visit, inode: number): Promise<void>;
  /** Begins a download. A single-use link is used up, unless the download fails. @throws {BerthError} like `check`. */
  begin(visit: Visit): Promise<void>;
  /** Ends a download. @param bytes how many bytes were sent; undefined when the download was cut off. */
  end(visit: Visit, bytes: number | undefined): Promise<void>;
}

export function linkUses({ database, clock }: { readonly database: Database; readonly clock: Clock }): LinkUses {
  async function admitted(db: Kysely<Tables>, visit: Visit, isLocked: boolean) {
    const { link, address } = visit;
    const query = db
      .selectFrom('directories')
      .selectAll()
      .where('id', '=', link.directoryId)
      .where('deleted_at', 'is', null);
    const directory = await (isLocked ? query.forNoKeyUpdate() : query).executeTakeFirst();
    const secret = directory?.link_secret ?? NO_SECRET;
    const isOurs = isSigned(secret, link) && secret !== NO_SECRET;
    if (!directory || !isOurs || !(await isOfLiveAccount(db, directory)))
      throw new BerthError('link_invalid', 'This link is not valid. Ask for a new one.');
    const now = clock.now();
    if (link.expiresAt <= now) throw new BerthError('link_ended', 'This link has expired. Ask for a new one.');
    if (directory.suspended === 1 || hasExpired(directory, now))
      throw new BerthError('link_invalid', 'This link does not work at the moment.');
    if (!isWithin(JSON.parse(directory.allowed_networks) as string[], address))
      throw new BerthError('link_invalid', 'This link does not work from this network.');
    const digest = digestOf(secret, link);
    const use = link.once && db.selectFrom('link_uses').select('digest').where('digest', '=', digest);
    if (use && (await use.executeTakeFirst())) throw used();
    return { directory, digest };
  }

  async function insert(tx: Transaction<Tables>, visit: Visit, of: { inode: number | null; pending: 0 | 1 }) {
    const { directory, digest } = await admitted(tx, visit, true);
    if (!visit.link.once) return;
    await tx
      .deleteFrom('link_uses')
      .where('directory_id', '=', directory.id)
      .where('expires_at', '<', clock.now() - KEPT_FOR)
      .execute();
    const row = { digest, directory_id: directory.id, expires_at: visit.link.expiresAt, ...of };
    const done = await tx
      .insertInto('link_uses')
      .values(row)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (Number(done.numInsertedOrUpdatedRows ?? 0) === 0) throw used();
  }

  return {
    check: async (visit) => (await admitted(database.reads, visit, false)).directory,
    take: (tx, visit, inode) => insert(tx, visit, { inode, pending: 0 }),
    begin: async (visit) => {
      if (!visit.link.once) return;
      await database.db.transaction().execute((tx) => insert(tx, visit, { inode: null, pending: 1 }));
    },
    end: ({ link, address }, bytes) =>
      database.db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('directories').selectAll().where('id', '=', link.directoryId);
        const directory = await own.where('deleted_at', 'is', null).executeTakeFirst();
        if (!directory) return;
        if (link.once && directory.link_secret !== null) {
          const digest = digestOf(directory.link_secret, link);
          if (bytes === undefined)
            await tx.deleteFrom('link_uses').where('digest', '=', digest).where('pending', '=', 1).execute();
          else await tx.updateTable('link_uses').set({ pending: 0 }).where('digest', '=', digest).execute();
        }
        if (bytes === undefined) return;
        const about = { event: 'downloaded', path: link.path, at: clock.now(), bytes, byLink: { address } } as const;
        await recordHistory(tx, [historyRow(directory, about)], clock);
      }),
  };
}

/** Makes single-use links work again whose downloads a crash has cut off. */
export async function forgetCutOff({ db }: Pick<Database, 'db'>, node: string): Promise<void> {
  const here = db.selectFrom('directories').select('id').where('node', '=', node);
  await db.deleteFrom('link_uses').where('pending', '=', 1).where('directory_id', 'in', here).execute();
}

function used(): BerthError {
  return new BerthError('link_ended', 'This link has been used, and works only once. Ask for a new one.');
}

async function isOfLiveAccount(db: Kysely<Tables>, { account_id }: DirectoriesTable): Promise<boolean> {
  const account = db.selectFrom('accounts').select('id').where('id', '=', account_id).where('deleted_at', 'is', null);
  return (await account.executeTakeFirst()) !== undefined;
}
