/**
 * API keys: shown once when they are issued, stored as a hash, revoked for good. The API, the dashboard and `berth key`
 * share these rules.
 */
import { randomUUID } from 'node:crypto';
import { type Kysely, type Selectable, type Transaction } from 'kysely';
import { type Clock, formatMicros, type Micros } from '../../foundation/base/clock.ts';
import type { Config } from '../../foundation/base/config.ts';
import type { Store } from '../../foundation/context.ts';
import type { Database } from '../../foundation/db/open.ts';
import { latest } from '../../foundation/db/shared.ts';
import type { ApiKeysTable, Role, Tables } from '../../foundation/db/schema.ts';
import { BerthError, OperatorError, wrongField } from '../../foundation/base/errors.ts';
import { insertAccountAudit } from '../history/audit.ts';
import type { UsedKeys } from './last-used.ts';
import { checked, INVALID, orBlank, timestamp } from '../../foundation/base/validation.ts';
import { type AccountTarget, LIMITS, verifyActor } from '../accounts/actor.ts';
import { DirectoryNames, idsOfDirectories } from '../accounts/limits.ts';
import { allowsApi, GivenName, lockedAccount, requireAccount, unknownAccount } from '../accounts/accounts.ts';
import { hashToken } from '../../foundation/base/hashes.ts';
import { generateKey } from './authenticate.ts';
import * as v from 'valibot';

export const ROLES = ['admin', 'member'] as const satisfies readonly Role[];

export const NewKey = v.pipe(
  v.object({
    name: GivenName,
    role: v.picklist(ROLES, INVALID),
    expires_at: v.optional(
      v.pipe(
        v.nullable(timestamp),
        v.description('The key is refused from then on. Without this, or with `null`, it never expires.'),
      ),
    ),
    read_only: v.optional(v.pipe(v.boolean(orBlank), v.description('The key cannot change anything.'))),
    directories: v.optional(
      v.pipe(
        v.nullable(DirectoryNames),
        v.description(
          'The ids or SFTP usernames of the directories that the key is limited to. Without this, or with `null`, it covers all directories.',
        ),
      ),
    ),
  }),
  v.title('NewApiKey'),
);

/** A key names its environment: `svc_live_…`. */
interface KeyContext extends Store {
  readonly config: Pick<Config, 'environment'>;
}

/** A key as it may be shown later: without its hash. */
export type ApiKey = Omit<Selectable<ApiKeysTable>, 'hash'>;

/** A new key with its text. Later only its hash is known. */
export type IssuedKey = ApiKey & { readonly key: string };

const SHOWN = [
  'id',
  'account_id',
  'name',
  'role',
  'inserted_at',
  'last_used_at',
  'revoked_at',
  'created_by',
  'expires_at',
  ...LIMITS,
] as const;

/**
 * Issues a key. Its text is only in the result.
 * @param fields those of `NewKey`.
 * @throws {ValidationError}.
 * @throws {BerthError} `plan_required` when the plan does not include the API. An operator can create keys on any plan.
 * @throws {OperatorError} when there is no such account.
 */
export async function createKey(
  { database, clock, config }: KeyContext,
  target: AccountTarget<IssuedKey>,
  fields: Readonly<Record<string, unknown>>,
): Promise<IssuedKey> {
  const { accountId, actor } = target;
  const key = generateKey(config.environment);
  const { read_only, expires_at = null, directories: named, ...given } = checked(NewKey, fields);
  const now = clock.now();
  if (expires_at !== null && expires_at <= now) throw wrongField('expires_at', 'past');
  return database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, target);
    const account = await lockedAccount(tx, accountId);
    if (!account) throw unknownAccount(accountId);
    if (actor?.credential && !allowsApi(account.plan))
      throw new BerthError('plan_required', 'API keys need the Pro or Business plan.');
    const row = {
      id: randomUUID(),
      account_id: accountId,
      ...given,
      inserted_at: now,
      last_used_at: null,
      revoked_at: null,
      created_by: actor?.keyId ?? null,
      expires_at,
      read_only: read_only ? (1 as const) : (0 as const),
      directories: named ? JSON.stringify(await idsOfDirectories(tx, accountId, named)) : null,
    };
    await tx
      .insertInto('api_keys')
      .values({ ...row, hash: hashToken(key) })
      .execute();
    await audit(tx, target, 'create-key', row, now);
    const issued = { ...row, key };
    await actor?.response?.keep(tx, issued);
    return issued;
  });
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

/** For operators, who name a key alone. @throws {OperatorError} when there is no such key. */
export async function accountOfKey(reads: Kysely<Tables>, id: string): Promise<string> {
  const key = await reads.selectFrom('api_keys').select('account_id').where('id', '=', id).executeTakeFirst();
  if (!key) throw new OperatorError(`there is no key ${JSON.stringify(id)}: see berth key list ACCOUNT_ID`);
  return key.account_id;
}

export async function findKey(reads: Kysely<Tables>, accountId: string, id: string): Promise<ApiKey | undefined> {
  const key = reads.selectFrom('api_keys').select(SHOWN).where('id', '=', id).where('account_id', '=', accountId);
  return key.executeTakeFirst();
}

/** The account's keys that come after `after`, newest first. */
export async function newestKeys(
  reads: Kysely<Tables>,
  accountId: string,
  {
    after,
    limit,
    isRevoked,
  }: { after?: Pick<ApiKey, 'inserted_at' | 'id'> | undefined; limit: number; isRevoked?: boolean },
): Promise<ApiKey[]> {
  let keys = reads.selectFrom('api_keys').select(SHOWN).where('account_id', '=', accountId);
  if (isRevoked !== undefined) keys = keys.where('revoked_at', isRevoked ? 'is not' : 'is', null);
  if (after)
    keys = keys.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('inserted_at', 'id'), '<', tuple(after.inserted_at, after.id)),
    );
  return keys.orderBy('inserted_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}

/** The account's keys that an actor has made and that are in force, newest first. */
export function keysMadeBy(
  reads: Kysely<Tables>,
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  { now, limit }: { readonly now: Micros; readonly limit: number },
): Promise<ApiKey[]> {
  return reads
    .selectFrom('api_keys')
    .select(SHOWN)
    .where('account_id', '=', accountId)
    .where('created_by', '=', keyId)
    .where('revoked_at', 'is', null)
    .where(({ eb, or }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
    .orderBy('inserted_at', 'desc')
    .limit(limit)
    .execute();
}

/**
 * Revokes a key from the next request on. A key can revoke itself. Revoking a key again changes nothing.
 * @throws {BerthError} `api_key_not_found` when the account has no such key; `last_admin` when the actor is an API key, and
 * nobody could create keys afterwards.
 */
export async function revokeKey({ database, clock }: Store, target: AccountTarget, keyId: string): Promise<ApiKey> {
  return database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, target);
    const own = tx.selectFrom('api_keys').select(SHOWN).where('id', '=', keyId);
    const key = await own.where('account_id', '=', target.accountId).forUpdate().executeTakeFirst();
    if (!key) throw new BerthError('api_key_not_found', 'API key not found');
    if (key.revoked_at !== null) return key;
    const revoked_at = clock.now();
    await tx.updateTable('api_keys').set({ revoked_at }).where('id', '=', keyId).execute();
    if (target.actor?.credential?.kind === 'api-key') await requireAdminLeft(tx, key.account_id, clock);
    await audit(tx, target, 'revoke-key', key, revoked_at);
    return { ...key, revoked_at };
  });
}

/** Operators can always create keys with `berth key`, but a customer cannot run it. */
async function requireAdminLeft(tx: Transaction<Tables>, accountId: string, clock: Clock): Promise<void> {
  const admins = (table: 'api_keys' | 'users') =>
    tx
      .selectFrom(table)
      .select('id')
      .where('account_id', '=', accountId)
      .where('role', '=', 'admin')
      .where('read_only', '=', 0)
      .where('directories', 'is', null)
      .limit(1);
  const key = await admins('api_keys')
    .where('revoked_at', 'is', null)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', clock.now())]))
    .executeTakeFirst();
  if (key || (await admins('users').where('disabled_at', 'is', null).executeTakeFirst())) return;
  throw new BerthError(
    'last_admin',
    'This is the last key of an admin, and the dashboard has none. Create another first.',
  );
}

async function audit(
  tx: Transaction<Tables>,
  target: AccountTarget<never>,
  action: 'create-key' | 'revoke-key',
  { id, name, role, ...limits }: ApiKey,
  at: Micros,
): Promise<void> {
  const { expires_at, read_only, directories: ids } = limits;
  const values = Object.entries({
    key: id,
    name,
    role,
    ...(expires_at !== null && { expires_at: formatMicros(expires_at) }),
    ...(read_only === 1 && { read_only: true }),
    ...(ids !== null && { directories: JSON.parse(ids) as unknown }),
  });
  const isNew = action === 'create-key';
  const details = values.map(([field, value]) => [
    field,
    isNew ? { from: null, to: value } : { from: value, to: null },
  ]);
  await insertAccountAudit(tx, target, { at, action, details: Object.fromEntries(details) });
}

/** Notes uses of API keys, by id. */
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

/** The names of the API keys that made these keys or links, by the makers' ids. */
export async function makersOf(
  reads: Kysely<Tables>,
  accountId: string,
  made: readonly { readonly created_by: string | null }[],
): Promise<ReadonlyMap<string, string>> {
  const ids = made.flatMap(({ created_by }) => created_by ?? []);
  if (ids.length === 0) return new Map();
  const keys = reads.selectFrom('api_keys').select(['id', 'name']).where('id', 'in', ids);
  const rows = await keys.where('account_id', '=', accountId).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}
