/**
 * Whose request it is. A look-up is remembered only while nobody has committed anything, in this process or another,
 * so a revoked key or a changed plan or role counts at the next request.
 */
import type { Reads } from '../db/reads.ts';
import type { Plan, Role } from '../db/schema.ts';
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
  const known = new Map<string, Principal>();
  let knownAt = Number.NaN;

  return async (key) => {
    // The version is read before the row: a commit in between can only make the memory look older than it is.
    const version = await reads.version();
    if (version !== knownAt) {
      known.clear();
      knownAt = version;
    }
    const remembered = known.get(key);
    if (remembered) return remembered;
    if (!isWellFormedKey(key, environment)) return undefined;
    const principal = await byHash.first({ hash: hashKey(key) });
    if (principal && knownAt === version) {
      if (known.size >= REMEMBERED) known.clear();
      known.set(key, principal);
    }
    return principal;
  };
}
