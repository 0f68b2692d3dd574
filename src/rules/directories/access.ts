/**
 * Limits on logins besides passwords and keys: a directory can be suspended, expire, and be open to certain networks only.
 * Files, announcements and retention are not affected, and the credentials are kept: they work again once the limit ends.
 *
 * Nothing stores that a directory has expired: sshd's hook compares its expiry with the clock, and `expiry.ts` ends the
 * sessions. So a directory that expired by a wrong clock is open again once the clock is right.
 */
import type { Kysely } from 'kysely';
import * as v from 'valibot';
import { type Micros, hasExpired } from '../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { checked, orBlank, timestamp } from '../../foundation/base/validation.ts';
import { revokeAccess } from './change.ts';
import type { Fields } from './fields.ts';
import { networkOf } from './networks.ts';
import { liveDirectory, type RuleContext, type Target } from './target.ts';

const MOST_NETWORKS = 100;

/** Stored as JSON text. */
const networks = v.pipe(
  v.custom<string[]>((value) => Array.isArray(value) && value.every((each) => typeof each === 'string'), orBlank),
  v.metadata({ type: 'array', items: { type: 'string' } }),
  v.description(
    'The networks from which the user may log in, as IPv4 or IPv6 CIDRs. An empty list allows all networks.',
  ),
  v.check((list) => list.length <= MOST_NETWORKS, `should have at most ${MOST_NETWORKS} item(s)`),
  v.metadata({ maxItems: MOST_NETWORKS }),
  v.rawTransform(({ dataset, addIssue }) => {
    const found = new Set<string>();
    for (const text of dataset.value.slice(0, MOST_NETWORKS)) {
      const result = networkOf(text);
      if ('network' in result) found.add(result.network);
      else addIssue({ message: `${shownNetwork(text)} ${result.problem}` });
    }
    return JSON.stringify([...found]);
  }),
);

function shownNetwork(text: string): string {
  if (text.trim() === '') return 'an empty text';
  return text.length > 50 ? 'a network' : text.toWellFormed();
}

export const AccessFields = v.pipe(
  v.object({
    suspended: v.optional(v.pipe(v.boolean(orBlank), v.description('While this is `true`, logins are refused.'))),
    expires_at: v.optional(
      v.pipe(v.nullable(timestamp), v.description('Logins are refused from then on. `null` means never.')),
    ),
    allowed_networks: v.optional(networks),
  }),
  v.title('AccessFields'),
);

export interface Access {
  readonly suspended: boolean;
  readonly expires_at: Micros | null;
  readonly allowed_networks: readonly string[];
}

/** @throws {BerthError} `directory_not_found`. */
export async function accessOf(reads: Kysely<Tables>, target: Target): Promise<Access> {
  return accessIn(await liveDirectory(reads, target));
}

/**
 * Changes the limits, in force at the next login. When the directory is suspended or has expired, all its sessions have ended
 * by the time this returns.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateAccess(context: RuleContext, target: Target, fields: Fields): Promise<Access> {
  const { suspended, ...others } = checked(AccessFields, fields);
  const changes = { ...others, ...(suspended !== undefined && { suspended: suspended ? (1 as const) : (0 as const) }) };
  const directory = await revokeAccess(context, target, () => changes);
  const access = accessIn(directory);
  if (hasExpired(access, context.clock.now())) await context.host.endSessions(directory);
  return access;
}

/** Whether the directory accepts public keys only, and has none. */
export function lacksKey({ auth_mode, public_key }: Pick<DirectoryRow, 'auth_mode' | 'public_key'>): boolean {
  return auth_mode === 'public_key' && public_key === null;
}

function accessIn({ suspended, expires_at, allowed_networks }: DirectoryRow): Access {
  return { suspended: suspended === 1, expires_at, allowed_networks: JSON.parse(allowed_networks) as string[] };
}
