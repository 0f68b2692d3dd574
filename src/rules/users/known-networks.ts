/** The last few networks from which each user has signed in. */
import type { Kysely, Transaction } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';

/** The parts of the address space that one client may own. */
export interface NetworkOf {
  network(address: string): string;
  /** A larger part, which some clients own. */
  site(address: string): string;
}

const MOST_NETWORKS = 10;

/** Whether one of these users has signed in from that network. */
export async function isKnownNetwork(
  reads: Kysely<Tables>,
  users: readonly { readonly id: string; readonly signed_in_from: string | null }[],
  network: string,
  networkOf: NetworkOf,
): Promise<boolean> {
  if (users.length === 0) return false;
  // For users who have not signed in since networks are stored.
  if (users.some(({ signed_in_from: from }) => from !== null && networkOf.network(from) === network)) return true;
  const ids = users.map(({ id }) => id);
  const known = reads.selectFrom('user_networks').select('user_id').where('user_id', 'in', ids);
  return (await known.where('network', '=', network).limit(1).executeTakeFirst()) !== undefined;
}

export async function noteNetwork(
  tx: Transaction<Tables>,
  userId: string,
  network: string,
  now: Micros,
): Promise<void> {
  await tx
    .insertInto('user_networks')
    .values({ user_id: userId, network, seen_at: now })
    .onConflict((conflict) => conflict.columns(['user_id', 'network']).doUpdateSet({ seen_at: now }))
    .execute();
  const own = tx.selectFrom('user_networks').select('network').where('user_id', '=', userId);
  const kept = await own.orderBy('seen_at', 'desc').limit(MOST_NETWORKS).execute();
  if (kept.length < MOST_NETWORKS) return;
  await tx
    .deleteFrom('user_networks')
    .where('user_id', '=', userId)
    .where(
      'network',
      'not in',
      kept.map((each) => each.network),
    )
    .execute();
}
