/**
 * Creates a directory that accepts logins by the time it is returned (specification, "What the service does" 1 and 2).
 * One transaction writes the row and a mark (`pending-apply.ts`); then the disk follows. After a crash in between, the next start
 * of the directory's node completes it.
 */
import { randomUUID } from 'node:crypto';
import { sql, type Transaction } from 'kysely';
import { type Actor, type Removal, verifyActor } from '../accounts/actor.ts';
import { lockedAccount } from '../accounts/accounts.ts';
import { DIRECTORY_LIMITS } from '../accounts/plans.ts';
import type { DirectoryRow, PrincipalsTable, Tables } from '../../foundation/db/schema.ts';
import { nextUid } from '../../foundation/db/shared.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { insertAudit } from '../history/audit.ts';
import { DEFAULTS } from './defaults.ts';
import { type DeleteOptions, markDeleted, removeFromHost } from './delete.ts';
import { type Fields, newDirectory } from './fields.ts';
import { isHomeAway } from './node-placement.ts';
import { generatePassword, generateUsername, generateWebhookSecret, slugOf } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { notFound } from './target.ts';
import { markPendingApply } from './pending-apply.ts';

/** The start of a range of UIDs that nobody assigns (systemd's "Users, Groups, UIDs and GIDs": unused, above containers). */
export const FIRST_UID = 1_879_048_192;

/** The audit of a creation leaves out what has its default, but for how and how often the user may log in. */
const { auth_mode: _, max_connections: __, ...BLANK } = DEFAULTS;

export type CreateOptions = DeleteOptions;

export interface Created {
  readonly directory: DirectoryRow;
  /** Later only its hash is known. */
  readonly password: string;
}

/**
 * @param actor the request behind it, for the audit.
 * @throws {ValidationError} when a field is wrong; {BerthError} `directory_limit` when the plan allows no more,
 * `storage_full`. After an error, the directory is removed again.
 */
export async function createDirectory(
  options: CreateOptions,
  accountId: string,
  fields: Fields,
  actor?: Actor<Created>,
): Promise<Created> {
  const valid = newDirectory(fields);
  const { password, hash: password_hash } = generatePassword();
  const slug = slugOf(valid.name);
  const directory = await refusingWhenFull(() =>
    options.database.db.transaction().execute(async (tx) => {
      await verifyActor(tx, actor);
      await checkLimit(tx, accountId);
      const principal = await newPrincipal(tx, slug);
      const now = options.clock.now();
      const row: DirectoryRow = {
        ...DEFAULTS,
        ...valid,
        id: randomUUID(),
        account_id: accountId,
        slug,
        ...(await options.placement.choose(tx)),
        version: 1,
        sftp_username: principal.username,
        uid: principal.uid,
        password_hash,
        webhook_secret: generateWebhookSecret(),
        inserted_at: now,
        updated_at: now,
      };
      await tx.insertInto('directories').values(row).execute();
      await markPendingApply(tx, row);
      if (actor) await insertAudit(tx, actor, { action: 'create', at: now, directory: row, before: BLANK, after: row });
      await actor?.response?.keep(tx, { directory: row, password });
      return row;
    }),
  );
  return makeLive(options, { directory, password }, actor);
}

/**
 * Makes the disk follow. When the chosen node does not answer, the same directory moves to another one: creating a second
 * directory could exceed the plan's limit.
 */
async function makeLive(options: CreateOptions, created: Created, actor?: Actor<Created>): Promise<Created> {
  let { directory } = created;
  const tried: string[] = [];
  try {
    for (;;) {
      try {
        await refusingWhenFull(() => options.host.apply(directory, true));
        return { ...created, directory };
      } catch (error) {
        if (!isHomeAway(error)) throw error;
        tried.push(directory.node);
        const moving = moveNew(options, { ...created, directory }, tried, actor);
        directory = await moving.catch((none: unknown) => {
          throw isHomeAway(none) ? error : none; // says what is wrong with the last one
        });
      }
    }
  } catch (error) {
    await undo(options, directory, actor);
    throw error;
  }
}

/**
 * Moves a directory that is not live yet to a node that was not tried.
 * @throws {BerthError} `home_unavailable` when no node is left, `directory_not_found` when it was deleted meanwhile.
 */
async function moveNew(
  options: CreateOptions,
  { directory, password }: Created,
  tried: readonly string[],
  actor?: Actor<Created>,
): Promise<DirectoryRow> {
  const { id } = directory;
  return options.database.db.transaction().execute(async (tx) => {
    const home = await options.placement.choose(tx, tried);
    const moved = await tx
      .updateTable('directories')
      .set({ ...home, version: sql`version + 1` })
      .where('id', '=', id)
      .where('deleted_at', 'is', null)
      .returning('version')
      .executeTakeFirst();
    if (!moved) return notFound();
    await markPendingApply(tx, { id, ...moved });
    await recordLeftover(tx, directory);
    const row = { ...directory, ...home, ...moved };
    await actor?.response?.keep(tx, { directory: row, password });
    return row;
  });
}

/** Makes a node remove what it may have made of a directory that is not at home there. */
async function recordLeftover(tx: Transaction<Tables>, { id, node, sftp_username, uid }: DirectoryRow): Promise<void> {
  await tx
    .insertInto('leftovers')
    .values({ node, directory_id: id, sftp_username, uid })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Locks the account, so that simultaneous requests cannot exceed the limit. */
async function checkLimit(tx: Transaction<Tables>, accountId: string): Promise<void> {
  const account = await lockedAccount(tx, accountId);
  // The account was deleted during this request, so it gets the same answer as the next request.
  if (!account) throw new BerthError('unauthenticated', 'Invalid or missing API key');
  const limit = DIRECTORY_LIMITS[account.plan];
  if (limit === undefined) return;
  const { count } = await tx
    .selectFrom('directories')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  if (count >= limit) {
    throw new BerthError('directory_limit', 'Directory limit reached for your plan');
  }
}

/** A UID and a username that were never used before. The row is never removed, so they are never used again. */
async function newPrincipal(tx: Transaction<Tables>, slug: string): Promise<PrincipalsTable> {
  for (;;) {
    const principal = await tx
      .insertInto('principals')
      .values({ uid: nextUid(tx, FIRST_UID), username: generateUsername(slug) })
      .onConflict((conflict) => conflict.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (principal) return principal;
  }
}

/**
 * Deletes the directory again. When the database is full or away, its rows are removed once that is over. The mark stays until
 * that has succeeded, so it is repeated. Throws nothing: the caller gets the error of the creation.
 */
async function undo(options: CreateOptions, directory: DirectoryRow, actor?: Actor<never>): Promise<void> {
  const removeAnswer: Removal | undefined = actor?.response?.withdraw();
  const isHere = directory.node === options.placement.here;
  let isMarked = false;
  try {
    // Without the credential: the key may have been revoked meanwhile.
    const audited = actor && ({ actor: { ...actor, credential: undefined }, action: 'undo-create' } as const);
    const deleted = await markDeleted(options, directory.account_id, directory.id, audited, removeAnswer);
    isMarked = true;
    if (deleted) await removeFromHost(options, deleted, true);
  } catch {
    // Another node removes it as soon as it can.
    if (isMarked && !isHere) return;
    options.removal.add(directory.id, async (tx) => {
      await removeAnswer?.(tx);
      if (!isHere) await recordLeftover(tx, directory);
    });
    if (isHere) await options.host.remove(directory).catch(() => undefined);
  }
}
