/**
 * Decides whether a link works now. A request is checked when it arrives, and again in the transaction of its change: a link
 * that has expired, or was used or revoked in between, changes nothing.
 */
import type { Kysely, Selectable, Transaction } from 'kysely';
import type { Clock } from '../base/clock.ts';
import { BerthError } from '../base/errors.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, LinksTable, Tables } from '../db/schema.ts';
import { hasExpired } from '../directories/access.ts';
import { isWithin } from '../directories/networks.ts';
import { pathOf } from '../uploads/file-path.ts';
import { historyRow, recordHistory } from '../uploads/record/history.ts';
import { isOfKeyInForce } from './links.ts';
import { hashToken } from './token.ts';

/** A link's token, and the address of the client that uses it. */
export interface Visit {
  readonly token: string;
  readonly address: string;
}

/** What a link that works gives access to. */
export interface Admitted {
  readonly link: Selectable<LinksTable>;
  readonly directory: DirectoriesTable;
  /** The name of the directory's account, for the page that outsiders see. */
  readonly account: string;
}

export interface LinkUses {
  /** @throws {BerthError} `link_invalid`, `link_ended`. */
  check(visit: Visit): Promise<Admitted>;
  /**
   * Like `check`, and uses up a single-use link with the commit of the transaction.
   * @returns the id of a link that this used up.
   * @throws {BerthError} like `check`.
   */
  take(tx: Transaction<Tables>, visit: Visit): Promise<string | undefined>;
  /** Begins a download. A single-use link is used up, unless the download fails. @throws {BerthError} like `check`. */
  begin(visit: Visit, admitted: Admitted): Promise<void>;
  /** Ends a download. @param bytes how many bytes were sent; undefined when the download was cut off. */
  end(visit: Visit, admitted: Admitted, bytes: number | undefined): Promise<void>;
}

export function linkUses({ database, clock }: { readonly database: Database; readonly clock: Clock }): LinkUses {
  async function admitted(db: Kysely<Tables>, { token, address }: Visit, isLocked: boolean): Promise<Admitted> {
    // Locked in the order of other changes: the directory before what belongs to it.
    const id = (await linkOf(db, token))?.directory_id ?? '';
    const query = db.selectFrom('directories').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
    const directory = await (isLocked ? query.forNoKeyUpdate() : query).executeTakeFirst();
    const link = directory && (await linkOf(db, token));
    const account = directory && (await nameOfLiveAccount(db, directory));
    if (!directory || !link || account === undefined)
      throw new BerthError('link_invalid', 'This link is not valid. Ask for a new one.');
    const now = clock.now();
    if (link.expires_at <= now) throw new BerthError('link_ended', 'This link has expired. Ask for a new one.');
    if (directory.suspended === 1 || hasExpired(directory, now))
      throw new BerthError('link_invalid', 'This link does not work at the moment.');
    if (!isWithin(JSON.parse(directory.allowed_networks) as string[], address))
      throw new BerthError('link_invalid', 'This link does not work from this network.');
    if (link.used_at !== null)
      throw new BerthError('link_ended', 'This link has been used, and works only once. Ask for a new one.');
    return { link, directory, account };
  }

  async function use(tx: Transaction<Tables>, visit: Visit, pending: 0 | 1): Promise<string | undefined> {
    const { link } = await admitted(tx, visit, true);
    if (link.once === 0) return undefined;
    await tx.updateTable('links').set({ used_at: clock.now(), pending }).where('id', '=', link.id).execute();
    return link.id;
  }

  return {
    check: (visit) => admitted(database.reads, visit, false),
    take: (tx, visit) => use(tx, visit, 0),
    begin: async (visit, { link }) => {
      if (link.once === 1) await database.db.transaction().execute((tx) => use(tx, visit, 1));
    },
    end: ({ address }, { link, directory: { id } }, bytes) =>
      database.db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('directories').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
        const directory = await own.executeTakeFirst();
        if (!directory) return;
        const done = bytes === undefined ? { used_at: null, pending: 0 as const } : { pending: 0 as const };
        if (link.once === 1)
          await tx.updateTable('links').set(done).where('id', '=', link.id).where('pending', '=', 1).execute();
        if (bytes === undefined) return;
        const path = pathOf(link.path);
        const about = { event: 'downloaded', path, at: clock.now(), bytes, byLink: { address } } as const;
        await recordHistory(tx, [historyRow(directory, about)], clock);
      }),
  };
}

/** Makes single-use links work again whose downloads a crash has cut off. */
export async function forgetCutOff({ db }: Pick<Database, 'db'>, node: string): Promise<void> {
  const here = db.selectFrom('directories').select('id').where('node', '=', node);
  await db
    .updateTable('links')
    .set({ used_at: null, pending: 0 })
    .where('pending', '=', 1)
    .where('directory_id', 'in', here)
    .execute();
}

function linkOf(db: Kysely<Tables>, token: string) {
  return db
    .selectFrom('links')
    .selectAll()
    .where('hash', '=', hashToken(token))
    .where(isOfKeyInForce)
    .executeTakeFirst();
}

async function nameOfLiveAccount(db: Kysely<Tables>, { account_id }: DirectoriesTable): Promise<string | undefined> {
  const account = db.selectFrom('accounts').select('name').where('id', '=', account_id).where('deleted_at', 'is', null);
  return (await account.executeTakeFirst())?.name;
}
