/** The directory that a request is about. */
import type { Kysely, Transaction } from 'kysely';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Actor } from '../history/audit.ts';

/** `Result` as in `Actor`. */
export interface Target<Result = unknown> {
  readonly accountId: string;
  readonly id: string;
  /** The request behind a change. */
  readonly actor?: Actor<Result> | undefined;
}

type OfAccount = Pick<Target, 'accountId' | 'id'>;

/** @throws {BerthError} `directory_not_found` when it is unknown, deleted or another account's. */
export async function liveDirectory(db: Kysely<Tables>, target: OfAccount): Promise<DirectoryRow> {
  return (await live(db, target).executeTakeFirst()) ?? notFound();
}

export async function isLive(db: Kysely<Tables>, target: OfAccount): Promise<boolean> {
  return (await live(db, target).executeTakeFirst()) !== undefined;
}

/** Reads the row and locks it, for a decision that depends on it: other changes wait until the transaction ends. */
export async function lockedDirectory(tx: Transaction<Tables>, target: OfAccount): Promise<DirectoryRow> {
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
