/** API keys: issued once in clear, kept as a hash, revoked for good. */
import { randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import { latest } from '../db/shared.ts';
import type { ApiKeysTable, Role, Tables } from '../db/schema.ts';
import { BerthError, OperatorError } from '../errors.ts';
import { type Asker, insertAccountAudit } from '../history/audit.ts';
import type { UsedKeys } from '../last-used.ts';
import { checked, INVALID } from '../validation.ts';
import { verifyAsker } from './asker.ts';
import { GivenName, lockedAccount, requireAccount, unknownAccount } from './accounts.ts';
import { type Environment, generateKey, hashKey } from './key-format.ts';
import { allowsApi } from './plans.ts';

export const ROLES = ['admin', 'member'] as const satisfies readonly Role[];

const NewKey = v.object({ name: GivenName, role: v.picklist(ROLES, INVALID) });

/** A key as it may be shown later: without its hash. */
export type ApiKey = Omit<ApiKeysTable, 'hash'>;

/** Who asks, for the audit: a user for keys of the own account, or the operator of this machine, who is of none. */
export type KeyAsker = Omit<Asker, 'accountId'> & Partial<Pick<Asker, 'accountId'>>;

const SHOWN = ['id', 'account_id', 'name', 'role', 'inserted_at', 'last_used_at', 'revoked_at', 'created_by'] as const;

/**
 * Issues a key. `key` in the result is the only time that it is known.
 * @throws {ValidationError} when the name or the role cannot be used.
 * @throws {BerthError} `plan_required` when a user asks on a plan without the API. An operator prepares keys on any.
 * @throws {OperatorError} when there is no such account.
 */
export async function createKey(
  { database, clock, environment }: { database: Database; clock: Clock; environment: Environment },
  { accountId, ...given }: { accountId: string; role: string; name: string },
  asker?: KeyAsker,
): Promise<ApiKey & { key: string }> {
  const key = generateKey(environment);
  const row = {
    id: randomUUID(),
    account_id: accountId,
    ...checked(NewKey, given),
    inserted_at: clock.now(),
    last_used_at: null,
    revoked_at: null,
    created_by: asker?.keyId ?? null,
  };
  await database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, asker);
    const account = await lockedAccount(tx, accountId);
    if (!account) throw unknownAccount(accountId);
    if (asker?.accountId !== undefined && !allowsApi(account.plan))
      throw new BerthError('plan_required', 'API keys need the Pro or Business plan.');
    await tx
      .insertInto('api_keys')
      .values({ ...row, hash: hashKey(key) })
      .execute();
    if (asker) await audit(tx, asker, 'create-key', row, row.inserted_at);
  });
  return { ...row, key };
}

/**
 * The keys of an account, oldest first, revoked ones too.
 * @throws {OperatorError} when there is no such account.
 */
export async function listKeys({ db }: Database, accountId: string): Promise<ApiKey[]> {
  await requireAccount(db, accountId);
  return db
    .selectFrom('api_keys')
    .select(SHOWN)
    .where('account_id', '=', accountId)
    .orderBy('inserted_at')
    .orderBy('id')
    .execute();
}

/** A key of that account. */
export async function findKey(reads: Kysely<Tables>, accountId: string, id: string): Promise<ApiKey | undefined> {
  const key = reads.selectFrom('api_keys').select(SHOWN).where('id', '=', id).where('account_id', '=', accountId);
  return key.executeTakeFirst();
}

/** The account's keys, newest first, from behind `after` on. */
export async function newestKeys(
  reads: Kysely<Tables>,
  accountId: string,
  { after, limit }: { after?: ApiKey | undefined; limit: number },
): Promise<ApiKey[]> {
  let keys = reads.selectFrom('api_keys').select(SHOWN).where('account_id', '=', accountId);
  if (after)
    keys = keys.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('inserted_at', 'id'), '<', tuple(after.inserted_at, after.id)),
    );
  return keys.orderBy('inserted_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}

/**
 * Revokes a key from the next request on. Revoking it again changes nothing.
 * @throws {OperatorError} when there is no such key, or it is not of the asker's account.
 */
export async function revokeKey(
  { database, clock }: { database: Database; clock: Clock },
  keyId: string,
  asker?: KeyAsker,
): Promise<ApiKey> {
  return database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, asker);
    const key = await tx.selectFrom('api_keys').select(SHOWN).where('id', '=', keyId).forUpdate().executeTakeFirst();
    if (!key || (asker?.accountId ?? key.account_id) !== key.account_id)
      throw new OperatorError(`there is no key ${JSON.stringify(keyId)}: see berth key list ACCOUNT_ID`);
    if (key.revoked_at !== null) return key;
    const revoked_at = clock.now();
    await tx.updateTable('api_keys').set({ revoked_at }).where('id', '=', keyId).execute();
    if (asker) await audit(tx, asker, 'revoke-key', key, revoked_at);
    return { ...key, revoked_at };
  });
}

async function audit(
  tx: Transaction<Tables>,
  asker: KeyAsker,
  action: 'create-key' | 'revoke-key',
  { id, account_id: accountId, name, role }: ApiKey,
  at: Micros,
): Promise<void> {
  const values = Object.entries({ key: id, name, role });
  const isNew = action === 'create-key';
  const details = values.map(([field, value]) => [
    field,
    isNew ? { from: null, to: value } : { from: value, to: null },
  ]);
  await insertAccountAudit(tx, { ...asker, accountId }, { at, action, details: Object.fromEntries(details) });
}

/** By their ids. */
export const USED_API_KEYS: UsedKeys = {
  name: 'last-used',
  async write(tx, id, at) {
    await tx
      .updateTable('api_keys')
      .set({ last_used_at: latest(tx, 'last_used_at', at) })
      .where('id', '=', id)
      .execute();
  },
};
