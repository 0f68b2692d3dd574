/**
 * Finds the key and the account of a request. Nothing is cached: a revoked or expired key and a changed plan or role count
 * from the next request on.
 */
import type { Kysely } from 'kysely';
import { type Clock, hasExpired } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Plan, Role, Tables } from '../../foundation/db/schema.ts';
import type { Credential } from '../accounts/actor.ts';
import { type Environment, hashKey, isWellFormedKey } from './key-format.ts';
import { type Scope, scopeOf } from '../accounts/scope.ts';

export interface Principal {
  readonly accountId: string;
  readonly keyId: string;
  readonly role: Role;
  readonly plan: Plan;
  readonly scope: Scope;
  /** Each change verifies it again. Root's commands have none. */
  readonly credential?: Credential;
}

/**
 * The principal of a key. Undefined when the key was never issued, is revoked or expired, or belongs to the other environment
 * or to an account that is being deleted.
 */
export type Authenticate = (key: string) => Promise<Principal | undefined>;

const byHash = compiled<{ hash: string }>()((db, p) =>
  db
    .selectFrom('api_keys')
    .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
    .select(['accounts.id as accountId', 'api_keys.id as keyId', 'api_keys.role as role', 'accounts.plan as plan'])
    .select(['api_keys.expires_at', 'api_keys.read_only', 'api_keys.directories'])
    .where('api_keys.hash', '=', p('hash'))
    .where('api_keys.revoked_at', 'is', null)
    .where('accounts.deleted_at', 'is', null),
);

export function createAuthenticate(reads: Kysely<Tables>, environment: Environment, clock: Clock): Authenticate {
  return async (key) => {
    if (!isWellFormedKey(key, environment)) return undefined;
    const found = await byHash.first(reads, { hash: hashKey(key) });
    if (!found || hasExpired(found, clock.now())) return undefined;
    const { accountId, keyId, role, plan } = found;
    const credential = { kind: 'api-key', id: keyId, role, clock } as const;
    return { accountId, keyId, role, plan, scope: scopeOf(found), credential };
  };
}
