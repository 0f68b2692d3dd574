/**
 * Creates a directory that accepts logins by the time it is returned (specification, "What the service does" 1 and 2).
 * One transaction writes the row and a mark (`pending-apply.ts`); then the disk follows. After a crash in between, the next start
 * of the directory's node completes it.
 */
import { randomUUID } from 'node:crypto';
import { sql, type Transaction } from 'kysely';
import { type AccountTarget, lockedOwnAccount, type Removal } from '../accounts/actor.ts';
import { DIRECTORY_LIMITS } from '../accounts/accounts.ts';
import type { DirectoryRow, PrincipalsTable, Tables } from '../../foundation/db/schema.ts';
import { nextUid } from '../../foundation/db/shared.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { insertAudit } from '../history/audit.ts';
import { DEFAULTS, type Fields, newDirectory } from './fields.ts';
import { markDeleted, removeFromHost } from './delete.ts';
import { isHomeAway } from './host.ts';
import { generatePassword, generateUsername, generateWebhookSecret, slugOf } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { notFound, type RuleContext } from './target.ts';
import { markPendingApply } from './pending-apply.ts';

/** The start of a range of UIDs that nobody assigns (systemd's "Users, Groups, UIDs and GIDs": unused, above containers). */
export const FIRST_UID = 1_879_048_192;

/** The audit of a creation leaves out what has its default, but for how and how often the user may log in. */
const { auth_mode: _, max_connections: __, ...BLANK } = DEFAULTS;

export interface Created {
  readonly directory: DirectoryRow;
  /** Later only its hash is known. */
  readonly password: string;
}

/**
 * @throws {ValidationError} when a field is wrong; {BerthError} `directory_limit` when the plan allows no more,
 * `storage_full`. After an error, the directory is removed again.
 */
export async function createDirectory(
  context: RuleContext,
  target: AccountTarget<Created>,
  fields: Fields,
): Promise<Created> {
  const { accountId, actor } = target;
  const valid = newDirectory(fields);
  const { password, hash: password_hash } = generatePassword();
  const slug = slugOf(valid.name);
  const directory = await refusingWhenFull(() =>
    context.database.db.transaction().execute(async (tx) => {
      await checkLimit(tx, target);
      const principal = await newPrincipal(tx, slug);
      const now = context.clock.now();
      const row: DirectoryRow = {
        ...DEFAULTS,
        ...valid,
        id: randomUUID(),
        account_id: accountId,
        slug,
        ...(await context.placement.choose(tx)),
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
      await insertAudit(tx, target, { action: 'create', at: now, directory: row, before: BLANK, after: row });
      await actor?.response?.keep(tx, { directory: row, password });
      return row;
    }),
  );
  return makeLive(context, target, { directory, password });
}

/**
 * Makes the disk follow. When the chosen node does not answer, the same directory moves to another one: creating a second
 * directory could exceed the plan's limit.
 */
async function makeLive(context: RuleContext, target: AccountTarget<Created>, created: Created): Promise<Created> {
  let { directory } = created;
  const tried: string[] = [];
  try {
    for (;;) {
      try {
        await refusingWhenFull(() => context.host.apply(directory, true));
        return { ...created, directory };
      } catch (error) {
        if (!isHomeAway(error)) throw error;
        tried.push(directory.node);
        const moving = moveNew(context, target, { ...created, directory }, tried);
        directory = await moving.catch((none: unknown) => {
          throw isHomeAway(none) ? error : none; // says what is wrong with the last one
        });
      }
    }
  } catch (error) {
    await undo(context, target, directory);
    throw error;
  }
}

/**
 * Moves a directory that is not live yet to a node that was not tried.
 * @throws {BerthError} `home_unavailable` when no node is left, `directory_not_found` when it was deleted meanwhile.
 */
async function moveNew(
  context: RuleContext,
  { actor }: AccountTarget<Created>,
  { directory, password }: Created,
  tried: readonly string[],
): Promise<DirectoryRow> {
  const { id } = directory;
  return context.database.db.transaction().execute(async (tx) => {
    const home = await context.placement.choose(tx, tried);
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
async function checkLimit(tx: Transaction<Tables>, target: AccountTarget<never>): Promise<void> {
  const { plan } = await lockedOwnAccount(tx, target);
  const limit = DIRECTORY_LIMITS[plan];
  if (limit === undefined) return;
  const { count } = await tx
    .selectFrom('directories')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('account_id', '=', target.accountId)
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
async function undo(
  context: RuleContext,
  { accountId, actor }: AccountTarget<never>,
  directory: DirectoryRow,
): Promise<void> {
  const removeAnswer: Removal | undefined = actor?.response?.withdraw();
  const isHere = directory.node === context.placement.here;
  let isMarked = false;
  try {
    // Without the credential: the key may have been revoked meanwhile.
    const target = { accountId, id: directory.id, actor: actor && { ...actor, credential: undefined } };
    const deleted = await markDeleted(context, target, 'undo-create', removeAnswer);
    isMarked = true;
    if (deleted) await removeFromHost(context, deleted, true);
  } catch {
    // Another node removes it as soon as it can.
    if (isMarked && !isHere) return;
    context.removal.add(directory.id, async (tx) => {
      await removeAnswer?.(tx);
      if (!isHere) await recordLeftover(tx, directory);
    });
    if (isHere) await context.host.remove(directory).catch(() => undefined);
  }
}
