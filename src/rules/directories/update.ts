/** What requests change about a directory: its fields, its password and keys, who may log in and from where, and its quota. */
import * as v from 'valibot';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { changeDirectory, revokeAccess } from './change.ts';
import { authFields, basicFields, type Fields } from './fields.ts';
import { generatePassword } from './identity.ts';
import { replacePublicKeys } from './public-keys.ts';
import { liveDirectory, type RuleContext, type Target } from './target.ts';
import type { Kysely, Transaction } from 'kysely';
import { hasExpired, type Micros, SECOND } from '../../foundation/base/clock.ts';
import { because, checked, orBlank, timestamp, wholeNumber } from '../../foundation/base/validation.ts';
import { networkOf } from './networks.ts';
import type { Loop } from '../../foundation/base/background.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import { BerthError } from '../../foundation/base/errors.ts';

/**
 * Changes basic fields (specification, PATCH, 1). Slug and username stay the same.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const changes = basicFields(fields);
  return changeDirectory(context, target, () => changes);
}

/**
 * Changes the auth settings, in force at the next login (specification, PATCH, 2). Other fields are ignored.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateAuth(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const { auth_mode, public_key } = authFields(fields);
  return revokeAccess(context, target, async (tx, now) => ({
    ...(auth_mode && { auth_mode }),
    ...(public_key && (await replacePublicKeys(tx, target.id, public_key, now))),
  }));
}

/**
 * Removes all keys and sets the mode to `password` (specification, DELETE public_key), even when there are no keys.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function removePublicKeys(context: RuleContext, target: Target): Promise<DirectoryRow> {
  return revokeAccess(context, target, async (tx, now) => ({
    auth_mode: 'password',
    ...(await replacePublicKeys(tx, target.id, undefined, now)),
  }));
}

export interface Renewed {
  readonly directory: DirectoryRow;
  /** Later only its hash is known. */
  readonly password: string;
}

/**
 * Replaces the password, in force at the next login; live sessions continue. If the directory's mode does not allow
 * passwords, the new one is kept until the mode does. Links to the former password end.
 * @param also runs in the same transaction.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function renewPassword(
  context: RuleContext,
  target: Target<Renewed>,
  also?: (tx: Transaction<Tables>, renewed: Renewed) => Promise<void>,
): Promise<Renewed> {
  const { password, hash: password_hash } = generatePassword();
  const directory = await revokeAccess(
    context,
    target,
    () => ({ password_hash }),
    async (tx, changed) => {
      const renewed = { directory: changed, password };
      await tx.deleteFrom('links').where('directory_id', '=', target.id).where('kind', '=', 'password').execute();
      await also?.(tx, renewed);
      await target.actor?.response?.keep(tx, renewed);
    },
  );
  return { directory, password };
}

// Limits on logins besides passwords and keys: a directory can be suspended, expire, and be open to certain networks
// only. Files, announcements and retention are not affected, and the credentials are kept: they work again once the
// limit ends. Nothing stores that a directory has expired: sshd's hook compares its expiry with the clock, and
// `startExpiry` ends the sessions. So a directory that expired by a wrong clock is open again once the clock is
// right.

const MOST_NETWORKS = 100;

/** Stored as JSON text. */
const networks = v.pipe(
  v.custom<string[]>((value) => Array.isArray(value) && value.every((each) => typeof each === 'string'), orBlank),
  v.metadata({ type: 'array', items: { type: 'string' } }),
  v.description(
    'The networks from which the user may log in, as IPv4 or IPv6 CIDRs. An empty list allows all networks.',
  ),
  v.check((list) => list.length <= MOST_NETWORKS, because('too_many', MOST_NETWORKS, 'item')),
  v.metadata({ maxItems: MOST_NETWORKS }),
  v.rawTransform(({ dataset, addIssue }) => {
    const found = new Set<string>();
    for (const text of dataset.value.slice(0, MOST_NETWORKS)) {
      const result = networkOf(text);
      if ('network' in result) found.add(result.network);
      else addIssue({ message: because(...result.problem) });
    }
    return JSON.stringify([...found]);
  }),
);

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

const EVERY_MS = 1000;

/** A login may be under way when its directory expires, and may read a clock that is slightly behind. */
const OVERLAP: Micros = 2 * SECOND;

/** Runs every second for directories that expired since the last run. The first run takes all: berth may have been down. */
export function startExpiry({ database, clock, host, placement, background }: RuleContext): Loop {
  let lastRun: Micros = 0;
  return background.start('expiry', { every: EVERY_MS, atOnce: true }, async (signal) => {
    const yieldNow = yielder();
    const now = clock.now();
    const expired = await database.reads
      .selectFrom('directories')
      .select(['sftp_username', 'node'])
      .where('node', '=', placement.here)
      .where('expires_at', '>', Math.min(lastRun, now) - OVERLAP)
      .where('expires_at', '<=', now)
      .where('deleted_at', 'is', null)
      .execute();
    for (const directory of expired) {
      if (signal.aborted) return;
      await host.endSessions(directory);
      await yieldNow();
    }
    lastRun = now;
  });
}

// How many bytes a directory may hold. The row has the limit; the kernel enforces it for all files of the SFTP user.

/** 1 PiB: more than any file system of today holds. */
const MOST_BYTES = 2 ** 50;

export const QuotaFields = v.object({ max_bytes: v.nullable(wholeNumber(0, MOST_BYTES)) }, orBlank);

export interface Quota {
  readonly max_bytes: number | null;
  /** The size of the recorded files, as in `storage_bytes`. */
  readonly used_bytes: number;
}

/**
 * Sets the limit, in force when this resolves. `null` removes it.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `quota_unavailable`, `storage_full`.
 */
export async function setQuota(context: RuleContext, target: Target, fields: Fields): Promise<Quota> {
  const { max_bytes } = checked(QuotaFields, fields);
  if (max_bytes !== null) {
    const obstacle = await context.host.quotaObstacle(await liveDirectory(context.database.reads, target));
    if (obstacle !== undefined) throw new BerthError('quota_unavailable', `No quota can be set: ${obstacle}`);
  }
  const directory = await changeDirectory(context, target, () => ({ quota_bytes: max_bytes }));
  return { max_bytes, used_bytes: directory.storage_bytes };
}

/** @throws {BerthError} `directory_not_found`. */
export async function quotaOf({ database }: RuleContext, target: Target): Promise<Quota> {
  const { quota_bytes: max_bytes, storage_bytes: used_bytes } = await liveDirectory(database.reads, target);
  return { max_bytes, used_bytes };
}
