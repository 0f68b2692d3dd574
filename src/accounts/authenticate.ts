/**
 * Whose request it is. A look-up is remembered only while nobody has committed anything, in this process or another,
 * so a revoked key or a changed plan or role counts at the next request.
 */
import type { Reads } from '../db/reads.ts';
import type { Plan, Role } from '../db/schema.ts';
import { whileUnchanged } from '../db/while-unchanged.ts';
import { type Environment, hashKey, isWellFormedKey } from './key-format.ts';

export interface Principal {
  readonly accountId: string;
  readonly keyId: string;
  readonly role: Role;
  readonly plan: Plan;
}

/** The principal of a key, or undefined when it was never issued, is revoked or belongs to the other environment. */
export type Authenticate = (key: string) => Promise<Principal | undefined>;

/** Distinct keys in use between two commits; beyond it the memory starts over. */
const REMEMBERED = 10_000;

export function createAuthenticate(reads: Reads, environment: Environment): Authenticate {
  const byHash = reads.prepare<{ hash: string }>()((db, p) =>
    db
      .selectFrom('api_keys')
      .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
      .select(['accounts.id as accountId', 'api_keys.id as keyId', 'api_keys.role as role', 'accounts.plan as plan'])
      .where('api_keys.hash', '=', p('hash'))
      .where('api_keys.revoked_at', 'is', null),
  );
  const known = whileUnchanged<Principal>(reads, { limit: REMEMBERED });

  return (key) =>
    known.get(key, () => (isWellFormedKey(key, environment) ? byHash.first({ hash: hashKey(key) }) : undefined));
}
