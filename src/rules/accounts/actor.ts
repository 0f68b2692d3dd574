/**
 * Checks at the moment of a change that the key or user behind the request may still make it.
 *
 * A request is let in when its headers arrive; its body may come much later. So each rule verifies the actor again, in the
 * transaction of the change and with the rows locked: a key that was revoked meanwhile, or a user who was demoted, disabled
 * or signed out, changes nothing.
 */
import type { Transaction } from 'kysely';
import { type Clock, hasExpired } from '../../foundation/base/clock.ts';
import type { ApiKeysTable, Role, Tables, UsersTable } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { lockedAccount, requireApi } from './accounts.ts';

/** The key or session that let a request in, with the role that it had then. */
export type Credential =
  /** `clock` decides whether the key has expired. */
  | { readonly kind: 'api-key'; readonly id: string; readonly role: Role; readonly clock: Clock }
  | { readonly kind: 'session'; readonly id: string; readonly userId: string; readonly role: Role };

/** Stores the response to one request, for its Idempotency-Key or for a form that is sent twice. */
export interface StoredResponse<Result> {
  /** Stores it, in the transaction of the request's change. */
  readonly keep: (tx: Transaction<Tables>, result: Result) => Promise<void>;
  /** For a change that is undone: the response is not used from now on. @returns a function that removes its row. */
  readonly withdraw: () => Removal;
}

export type Removal = (tx: Transaction<Tables>) => Promise<void>;

/** The account that a rule is about, and who asks: what every rule gets beside its context and its input. `Result` as in `Actor`. */
export interface AccountTarget<Result = unknown> {
  readonly accountId: string;
  /** The request behind a change, for its rights and the audit; undefined for berth's own changes. */
  readonly actor?: Actor<Result> | undefined;
}

/**
 * The request that makes a change. `Result` is what the rule returns, if the response to a repeated request is made of it: then
 * the rule stores it in its transaction, as `actor.response?.keep(tx, result)`. `Actor<never>` is any actor, for functions that
 * store no response.
 */
export interface Actor<Result = unknown> {
  readonly keyId: string;
  readonly requestId: string;
  /** Method and pattern of the path, such as `PATCH /api/v1/directories/:id`. */
  readonly route: string;
  /** Undefined for root's commands and for berth's own changes, which nobody can revoke. */
  readonly credential?: Credential | undefined;
  readonly response?: StoredResponse<Result> | undefined;
}

/** The credential and the scope with which each transaction's actor was verified. */
const verified = new WeakMap<Transaction<Tables>, { readonly credential: Credential; readonly scope: Scope }>();

/**
 * Call it first in a transaction that changes something. Rows are locked in the order account, user, session, key, directory,
 * so that changes cannot deadlock. `insertAudit` verifies the actor of a rule that has not done so, and that the change is
 * within the scope.
 * @returns the actor's limits.
 * @throws {BerthError} `unauthenticated`, `plan_required` or `not_authorized` when the actor may no longer make changes.
 */
export async function verifyActor(tx: Transaction<Tables>, { accountId, actor }: AccountTarget<never>): Promise<Scope> {
  const credential = actor?.credential;
  if (!credential) return UNLIMITED;
  const before = verified.get(tx);
  if (before?.credential === credential) return before.scope;
  const scope = scopeOf(await holderNow(tx, accountId, credential), credential.kind);
  requireChanges(scope);
  verified.set(tx, { credential, scope });
  return scope;
}

/**
 * Like `verifyActor`, for what users change of themselves, such as their passwords: that is outside of their limits.
 * @throws {BerthError} `not_authorized` also when the user is another one.
 */
export async function verifyOneself(
  tx: Transaction<Tables>,
  { accountId, actor, userId }: AccountTarget<never> & { readonly userId: string },
): Promise<void> {
  const credential = actor?.credential;
  if (!credential) return;
  if (credential.kind !== 'session' || credential.userId !== userId)
    throw new BerthError('not_authorized', 'Only the user may change this.');
  await holderNow(tx, accountId, credential);
  verified.set(tx, { credential, scope: UNLIMITED });
}

/** The key or the user behind the request, as they are now. */
async function holderNow(tx: Transaction<Tables>, accountId: string, credential: Credential) {
  const account = await lockedAccount(tx, accountId);
  if (credential.kind === 'api-key') {
    const key = account && (await keyInForce(tx, accountId, credential));
    if (!account || !key) throw new BerthError('unauthenticated', 'Invalid or missing API key');
    requireApi(account.plan);
    if (credential.role === 'admin' && key.role !== 'admin') throw new BerthError('not_authorized', 'Not authorized');
    return key;
  }
  const user = account && (await userInSession(tx, accountId, credential));
  if (!user) throw new BerthError('not_authorized', 'Your session has ended, so nothing was changed. Sign in again.');
  if (credential.role === 'admin' && user.role !== 'admin')
    throw new BerthError('not_authorized', 'You are no longer an admin, so nothing was changed.');
  return user;
}

/**
 * The first step of a change of the account: verifies the actor, and locks the account's row.
 * @throws {BerthError} like `verifyActor`; `unauthenticated`, as in the next request, when the account was deleted meanwhile.
 */
export async function lockedOwnAccount(tx: Transaction<Tables>, target: AccountTarget<never>) {
  await verifyActor(tx, target);
  const account = await lockedAccount(tx, target.accountId);
  if (!account) throw new BerthError('unauthenticated', 'Invalid or missing API key');
  return account;
}

async function keyInForce(
  tx: Transaction<Tables>,
  accountId: string,
  { id, clock }: Credential & { readonly kind: 'api-key' },
) {
  const own = tx.selectFrom('api_keys').select(['role', 'expires_at', ...LIMITS]);
  const live = own.where('id', '=', id).where('account_id', '=', accountId).where('revoked_at', 'is', null);
  const key = await live.forShare().executeTakeFirst();
  return key && !hasExpired(key, clock.now()) ? key : undefined;
}

async function userInSession(
  tx: Transaction<Tables>,
  accountId: string,
  { id, userId }: Credential & { readonly kind: 'session' },
) {
  const own = tx.selectFrom('users').select(['role', ...LIMITS]);
  const mine = own.where('id', '=', userId).where('account_id', '=', accountId).where('disabled_at', 'is', null);
  const user = await mine.forShare().executeTakeFirst();
  const session = tx.selectFrom('user_sessions').select('id').where('id', '=', id).where('user_id', '=', userId);
  return (await session.forShare().executeTakeFirst()) && user;
}

/**
 * The limits of a key or a user besides the role: read-only, or only certain directories. Who is limited to directories sees
 * nothing else of the account. Those of a key are fixed when it is created; an admin may change a user's.
 */
export interface Scope {
  readonly isReadOnly: boolean;
  /** The ids of the directories; undefined for the whole account. */
  readonly directories: ReadonlySet<string> | undefined;
  /** Whether a key or a user has these limits: refusals say so. */
  readonly of: Credential['kind'];
}

/** The scope of operators, and of keys and users without limits. */
export const UNLIMITED: Scope = { isReadOnly: false, directories: undefined, of: 'api-key' };

/** The columns of keys and users that have their limits. */
export const LIMITS = ['read_only', 'directories'] as const satisfies readonly (keyof ApiKeysTable &
  keyof UsersTable)[];

interface Limited {
  readonly read_only: 0 | 1;
  readonly directories: string | null;
}

export function scopeOf({ read_only, directories }: Limited, of: Credential['kind'] = 'api-key'): Scope {
  if (read_only === 0 && directories === null) return UNLIMITED;
  const ids = directories === null ? undefined : new Set(JSON.parse(directories) as string[]);
  return { isReadOnly: read_only === 1, directories: ids, of };
}

const REFUSALS: Readonly<Record<Credential['kind'], Readonly<Record<'change' | 'account', string>>>> = {
  'api-key': { change: 'This API key is read-only', account: 'This API key is for named directories only' },
  session: {
    change: 'You may only read. An admin of your account can change that.',
    account: 'You may only open some directories. An admin of your account can change that.',
  },
};

/** @throws {BerthError} `not_authorized` for a read-only key or user. */
export function requireChanges({ isReadOnly, of }: Scope): void {
  if (isReadOnly) throw new BerthError('not_authorized', REFUSALS[of].change);
}

/** @throws {BerthError} `directory_not_found` for a directory outside of the limits. */
export function requireDirectory({ directories }: Scope, id: string): void {
  if (directories && !directories.has(id)) throw new BerthError('directory_not_found', 'Directory not found');
}

/** @throws {BerthError} `not_authorized` for a key or user that is limited to directories. */
export function requireWholeAccount({ directories, of }: Scope): void {
  if (directories) throw new BerthError('not_authorized', REFUSALS[of].account);
}
