/**
 * Finds the key and the account of a request. Nothing is cached: a revoked or expired key and a changed plan or role count
 * from the next request on.
 */
import type { Kysely } from 'kysely';
import { type Clock, hasExpired } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Plan, Role, Tables } from '../../foundation/db/schema.ts';
import { type Credential, type Scope, scopeOf } from '../accounts/actor.ts';
import { hashToken, randomText } from '../../foundation/base/hashes.ts';
import { crc32 } from 'node:zlib';

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
    const found = await byHash.first(reads, { hash: hashToken(key) });
    if (!found || hasExpired(found, clock.now())) return undefined;
    const { accountId, keyId, role, plan } = found;
    const credential = { kind: 'api-key', id: keyId, role, clock } as const;
    return { accountId, keyId, role, plan, scope: scopeOf(found), credential };
  };
}

export type Environment = 'live' | 'test';

/**
 * The format of API keys: `svc_live_` or `svc_test_` (specification, "Authentication" 3), 32 random base62 characters, and 6
 * base62 characters of checksum, so that a mistyped key is refused without a query.
 */
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const BODY_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const FORMAT = new RegExp(`^svc_(live|test)_([0-9A-Za-z]{${BODY_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`);

/** A new key with 190 bits of entropy. */
export function generateKey(environment: Environment): string {
  const body = randomText(ALPHABET, BODY_LENGTH);
  return `svc_${environment}_${body}${checksum(body)}`;
}

/** Whether the text is a key of that environment without a typing error. Says nothing about whether it was issued. */
export function isWellFormedKey(text: string, environment: Environment): boolean {
  const [, prefix, body = '', sum] = FORMAT.exec(text) ?? [];
  return prefix === environment && sum === checksum(body);
}

/** CRC-32 of the body in base62. */
function checksum(body: string): string {
  let value = crc32(body);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i += 1) {
    text = (ALPHABET[value % ALPHABET.length] ?? '') + text;
    value = Math.floor(value / ALPHABET.length);
  }
  return text;
}
