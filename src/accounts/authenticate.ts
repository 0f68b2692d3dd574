/** Whose request it is. Asked anew each time: a revoked key, a changed plan or role counts at the next request. */
import type { Kysely } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { Plan, Role, Tables } from '../db/schema.ts';
import type { Credential } from './asker.ts';
import { type Environment, hashKey, isWellFormedKey } from './key-format.ts';

export interface Principal {
  readonly accountId: string;
  readonly keyId: string;
  readonly role: Role;
  readonly plan: Plan;
  /** What a change verifies again; root's commands have none. */
  readonly credential?: Credential;
}

/** The principal of a key, or undefined when it was never issued, is revoked, belongs to the other environment or to an account that is being deleted. */
export type Authenticate = (key: string) => Promise<Principal | undefined>;

const byHash = compiled<{ hash: string }>()((db, p) =>
  db
    .selectFrom('api_keys')
    .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
    .select(['accounts.id as accountId', 'api_keys.id as keyId', 'api_keys.role as role', 'accounts.plan as plan'])
    .where('api_keys.hash', '=', p('hash'))
    .where('api_keys.revoked_at', 'is', null)
    .where('accounts.deleted_at', 'is', null),
);

export function createAuthenticate(reads: Kysely<Tables>, environment: Environment): Authenticate {
  return async (key) => {
    if (!isWellFormedKey(key, environment)) return undefined;
    const found = await byHash.first(reads, { hash: hashKey(key) });
    return found && { ...found, credential: { kind: 'api-key', id: found.keyId, role: found.role } };
  };
}
