/** API keys: issued once in clear, kept as a hash, revoked for good. */
import { randomUUID } from 'node:crypto';
import type { Kysely } from 'kysely';
import type { Clock } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { ApiKeysTable, Role, Tables } from '../db/schema.ts';
import { OperatorError } from '../errors.ts';
import type { UsedKeys } from '../last-used.ts';
import { checkedName, unknownAccount } from './accounts.ts';
import { type Environment, generateKey, hashKey } from './key-format.ts';

export const ROLES = ['admin', 'member'] as const satisfies readonly Role[];

/** A key as it may be shown later: without its hash. */
export type ApiKey = Omit<ApiKeysTable, 'hash'>;

const SHOWN = ['id', 'account_id', 'name', 'role', 'inserted_at', 'last_used_at', 'revoked_at'] as const;

/**
 * Issues a key. `key` in the result is the only time that it is known.
 * @throws {OperatorError} when there is no such account or the name cannot be used.
 */
export async function createKey(
  { database, clock, environment }: { database: Database; clock: Clock; environment: Environment },
  { accountId, role, name }: { accountId: string; role: Role; name: string },
): Promise<ApiKey & { key: string }> {
  const key = generateKey(environment);
  const row = {
    id: randomUUID(),
    account_id: accountId,
    name: checkedName(name, 'key'),
    role,
    inserted_at: clock.now(),
    last_used_at: null,
    revoked_at: null,
  };
  await database.db.transaction().execute(async (tx) => {
    await requireAccount(tx, accountId);
    await tx
      .insertInto('api_keys')
      .values({ ...row, hash: hashKey(key) })
      .execute();
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

/**
 * Revokes a key from the next request on. Revoking it again changes nothing.
 * @throws {OperatorError} when there is no such key.
 */
export async function revokeKey(
  { database, clock }: { database: Database; clock: Clock },
  keyId: string,
): Promise<ApiKey> {
  return database.db.transaction().execute(async (tx) => {
    const key = await tx.selectFrom('api_keys').select(SHOWN).where('id', '=', keyId).executeTakeFirst();
    if (!key) throw new OperatorError(`there is no key ${JSON.stringify(keyId)}: see berth key list ACCOUNT_ID`);
    if (key.revoked_at !== null) return key;
    const revoked_at = clock.now();
    await tx.updateTable('api_keys').set({ revoked_at }).where('id', '=', keyId).execute();
    return { ...key, revoked_at };
  });
}

async function requireAccount(db: Kysely<Tables>, id: string): Promise<void> {
  const live = db.selectFrom('accounts').select('id').where('id', '=', id).where('deleted_at', 'is', null);
  if (!(await live.executeTakeFirst())) throw unknownAccount(id);
}

/** By their ids. */
export const USED_API_KEYS: UsedKeys = {
  name: 'last-used',
  async write(tx, id, last_used_at) {
    await tx.updateTable('api_keys').set({ last_used_at }).where('id', '=', id).execute();
  },
};
