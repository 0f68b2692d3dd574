/**
 * Limits on logins besides passwords and keys: a directory can be suspended, expire, and be open to certain networks only.
 * Files, announcements and retention are not affected, and the credentials are kept: they work again once the limit ends.
 *
 * Nothing stores that a directory has expired: sshd's hook compares its expiry with the clock, and `startExpiry` ends the
 * sessions. So a directory that expired by a wrong clock is open again once the clock is right.
 */
import type { Kysely } from 'kysely';
import { type Clock, hasExpired, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { checked, orBlank, timestamp } from '../../foundation/base/validation.ts';
import { revokeAccess } from './change.ts';
import type { Fields } from './fields.ts';
import { networkOf } from './networks.ts';
import { liveDirectory, type RuleContext, type Target } from './target.ts';
import type { Background, Loop } from '../../foundation/base/background.ts';
import type { Database } from '../../foundation/db/open.ts';
import { yielder } from '../../foundation/base/event-loop.ts';
import type { NodePlacement } from './node-placement.ts';
import type { DirectoryHost } from './host.ts';

import * as v from 'valibot';

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

const EVERY_MS = 1000;

/** A login may be under way when its directory expires, and may read a clock that is slightly behind. */
const OVERLAP: Micros = 2 * SECOND;

interface ExpiryOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly host: Pick<DirectoryHost, 'endSessions'>;
  readonly placement: Pick<NodePlacement, 'here'>;
  readonly background: Background;
}

/** Runs every second for directories that expired since the last run. The first run takes all: berth may have been down. */
export function startExpiry({ database, clock, host, placement, background }: ExpiryOptions): Loop {
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
