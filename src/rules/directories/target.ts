/**
 * What every rule gets: `(context, target, input)`. The target says whose account, which directory, and who asks. A rule that
 * changes a directory begins its transaction with `lockedDirectory`.
 */
import type { Kysely, Transaction } from 'kysely';
import type { Ground } from '../../foundation/context.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { type AccountTarget, requireDirectory, verifyActor } from '../accounts/actor.ts';
import type { DirectoryHost, NodePlacement } from './host.ts';
import type { RowRemoval } from './row-removal.ts';

export interface RuleContext extends Ground {
  readonly host: DirectoryHost;
  readonly placement: NodePlacement;
  readonly removal: RowRemoval;
}

/** A directory of an account. */
export interface Target<Result = unknown> extends AccountTarget<Result> {
  readonly id: string;
}

/** The directory whose settings a request changes; without an id, the account. */
export type Owner<Result = unknown> = Target<Result> | (AccountTarget<Result> & { readonly id?: undefined });

type OfAccount = Pick<Target, 'accountId' | 'id'>;

/** @throws {BerthError} `directory_not_found` when it is unknown, deleted or another account's. */
export async function liveDirectory(db: Kysely<Tables>, target: OfAccount): Promise<DirectoryRow> {
  return (await live(db, target).executeTakeFirst()) ?? notFound();
}

export async function isLive(db: Kysely<Tables>, target: OfAccount): Promise<boolean> {
  return (await live(db, target).executeTakeFirst()) !== undefined;
}

/**
 * The first step of a change: checks that the actor may still change the directory, and locks its row, so that other changes
 * wait until the transaction ends.
 * @throws {BerthError} like `verifyActor`; `directory_not_found`, also outside of the key's scope.
 */
export async function lockedDirectory(tx: Transaction<Tables>, target: Target<never>): Promise<DirectoryRow> {
  requireDirectory(await verifyActor(tx, target), target.id);
  return (await live(tx, target).forNoKeyUpdate().executeTakeFirst()) ?? notFound();
}

function live(db: Kysely<Tables>, { accountId, id }: OfAccount) {
  return db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null);
}

/** @param cause the system's error, if it says more. */
export function notFound(cause?: unknown): never {
  throw new BerthError('directory_not_found', 'Directory not found', { cause });
}
