/** Directories as the API shows them. Deleted directories and those of other accounts do not exist here. */
import type { Kysely } from 'kysely';
import { compiled } from '../../foundation/db/compiled.ts';
import { among } from '../../foundation/db/dialect.ts';
import { type ListPlace, placeInList, unknownPlace } from '../../foundation/db/lists.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';

/** The fields of a directory that the API shows (specification, "Resources"). Password hash and public keys are not among them. */
const SHOWN = [
  'id',
  'name',
  'description',
  'slug',
  'external_id',
  'metadata',
  'sftp_host',
  'sftp_port',
  'sftp_username',
  'webhook_url',
  'webhook_secret',
  'max_connections',
  'storage_bytes',
  'retention_days',
  'auth_mode',
  'public_key_fingerprint',
  'inserted_at',
  'updated_at',
] as const satisfies readonly (keyof DirectoryRow)[];

const LISTED = [
  'id',
  'name',
  'slug',
  'external_id',
  'sftp_username',
  'storage_bytes',
  'inserted_at',
] as const satisfies readonly (keyof DirectoryRow)[];

export type ShownDirectory = Pick<DirectoryRow, (typeof SHOWN)[number]>;
export type ListedDirectory = Pick<DirectoryRow, (typeof LISTED)[number]>;

/** At most `limit` rows that come after `after`: a row's id, or the place in the list of a row that may have gone. */
interface Page {
  readonly limit?: number | undefined;
  readonly after?: string | ListPlace | undefined;
}

interface Filter extends Page {
  readonly externalId?: string | undefined;
  readonly only?: ReadonlySet<string> | undefined;
}

const byId = compiled<{ accountId: string; id: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(SHOWN)
    .where('id', '=', p('id'))
    .where('account_id', '=', p('accountId'))
    .where('deleted_at', 'is', null),
);

export function directoryById(
  reads: Kysely<Tables>,
  accountId: string,
  id: string,
): Promise<ShownDirectory | undefined> {
  return byId.first(reads, { accountId, id });
}

/**
 * Newest first. Limited to directories with that `external_id`, and to those whose ids are in `only`, where given.
 * @throws {ValidationError} when the account has no directory with the id `after`, or `only` does not have it.
 */
export async function listDirectories(
  reads: Kysely<Tables>,
  accountId: string,
  { externalId, only, after, limit }: Filter,
): Promise<ListedDirectory[]> {
  let query = reads
    .selectFrom('directories')
    .select(LISTED)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc');
  if (externalId !== undefined) query = query.where('external_id', '=', externalId);
  if (only) query = query.where('id', 'in', among(reads, [...only]));
  if (limit !== undefined) query = query.limit(limit);
  if (after === undefined) return query.execute();
  if (typeof after === 'string' && only?.has(after) === false) throw unknownPlace();
  const { at, id } = typeof after === 'string' ? await placeInList(reads, 'directories', accountId, after) : after;
  return query.where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(at, id))).execute();
}
