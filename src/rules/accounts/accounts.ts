/** Accounts: the owners of directories, and their plans with their limits (specification, "Limits" and "Authentication" 6). */
import type { Store } from '../../foundation/context.ts';
import { randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { AccountsTable, Plan, Tables } from '../../foundation/db/schema.ts';
import { BerthError, OperatorError } from '../../foundation/base/errors.ts';
import { atMost, checked, nameLine, orBlank, UUID } from '../../foundation/base/validation.ts';

import * as v from 'valibot';

/** The name of an account or a key. */
export const GivenName = v.config(v.pipe(v.string(orBlank), ...nameLine, ...atMost(100)), { abortPipeEarly: true });

/** @throws {ValidationError} when the name is blank, too long or not printable. */
export async function createAccount(
  { database, clock }: Store,
  { name, plan }: { name: string; plan: Plan },
): Promise<AccountsTable> {
  const account = {
    id: randomUUID(),
    ...checked(v.object({ name: GivenName }), { name }),
    plan,
    inserted_at: clock.now(),
    deleted_at: null,
    deleted_by: null,
    second_factor_required_at: null,
    events: null,
  };
  await database.db.insertInto('accounts').values(account).execute();
  return account;
}

/** All accounts except those that are being deleted, oldest first. */
export async function listAccounts({ reads }: Pick<Database, 'reads'>): Promise<AccountsTable[]> {
  return reads
    .selectFrom('accounts')
    .selectAll()
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at')
    .orderBy('id')
    .execute();
}

/**
 * Changes the plan, in force from the next request. Directories above the limit of a smaller plan stay.
 * @throws {OperatorError} when there is no such account.
 */
export async function setPlan(database: Database, accountId: string, plan: Plan): Promise<AccountsTable> {
  const account = await database.db
    .updateTable('accounts')
    .set({ plan })
    .where('id', '=', accountId)
    .where('deleted_at', 'is', null)
    .returningAll()
    .executeTakeFirst();
  if (!account) throw unknownAccount(accountId);
  return account;
}

/**
 * Marks the account as deleted, for good: its keys are refused from the next request on, and the running service removes
 * everything else (`directories/delete.ts`). Marking it again changes nothing.
 * @param by the actor, as in the audit.
 * @throws {OperatorError} when there is no such account.
 */
export async function markDeleted(
  { database, clock }: { database: Pick<Database, 'db'>; clock: Clock },
  accountId: string,
  by: string,
): Promise<void> {
  await database.db.transaction().execute(async (tx) => {
    const one = tx.selectFrom('accounts').selectAll().where('id', '=', accountId);
    const account = await one.forNoKeyUpdate().executeTakeFirst();
    if (!account) throw unknownAccount(accountId);
    if (account.deleted_at !== null) return;
    const mark = { deleted_at: clock.now(), deleted_by: by };
    await tx.updateTable('accounts').set(mark).where('id', '=', accountId).execute();
  });
}

/**
 * The id of the account that an administrator names. An id is returned unchecked, so the account may have gone.
 * @throws {OperatorError} when no account has that name, or several have it.
 */
export async function accountNamed(db: Kysely<Tables>, text: string): Promise<string> {
  if (UUID.test(text)) return text;
  const found = await db
    .selectFrom('accounts')
    .select('id')
    .where('name', '=', text)
    .where('deleted_at', 'is', null)
    .execute();
  const [account, ...others] = found;
  if (!account) throw unknownAccount(text);
  if (others.length === 0) return account.id;
  const ids = found.map(({ id }) => id).join(', ');
  throw new OperatorError(`${found.length} accounts are called ${JSON.stringify(text)}: name one by its id (${ids})`);
}

/** @throws {OperatorError} when there is no such account, or it is being deleted. */
export async function requireAccount(db: Kysely<Tables>, id: string): Promise<Pick<AccountsTable, 'plan'>> {
  const account = await live(db, id).executeTakeFirst();
  if (!account) throw unknownAccount(id);
  return account;
}

/**
 * Locks the account until the transaction ends, for decisions such as whether it may have another directory, or who is its
 * last admin. Undefined when there is no such account, or it is being deleted.
 */
export async function lockedAccount(
  tx: Transaction<Tables>,
  id: string,
): Promise<Pick<AccountsTable, 'plan'> | undefined> {
  return live(tx, id).forNoKeyUpdate().executeTakeFirst();
}

function live(db: Kysely<Tables>, id: string) {
  return db.selectFrom('accounts').select('plan').where('id', '=', id).where('deleted_at', 'is', null);
}

export function unknownAccount(id: string): OperatorError {
  return new OperatorError(`there is no account ${JSON.stringify(id)}: see berth account list`);
}

export const PLANS = ['free', 'starter', 'pro', 'business'] as const satisfies readonly Plan[];

/** How many directories an account may have at once; undefined means no limit. */
export const DIRECTORY_LIMITS: Readonly<Record<Plan, number | undefined>> = {
  free: 1,
  starter: 5,
  pro: 25,
  business: undefined,
};

export function allowsApi(plan: Plan): boolean {
  return plan === 'pro' || plan === 'business';
}

/** @throws {BerthError} `plan_required` on a plan without the API. */
export function requireApi(plan: Plan): void {
  if (allowsApi(plan)) return;
  throw new BerthError(
    'plan_required',
    'API access requires a Pro or Business plan. Change the plan of the account to use it.',
  );
}
