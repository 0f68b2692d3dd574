/** Hot reads of directories. Deleted ones do not exist here, and neither do other accounts'. */
import type { Reads } from '../db/reads.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';

/** What the API shows of a directory (specification, "Resources"); its hash and key never leave the database. */
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
] as const satisfies readonly (keyof DirectoriesTable)[];

const LISTED = [
  'id',
  'name',
  'slug',
  'external_id',
  'sftp_username',
  'storage_bytes',
  'inserted_at',
] as const satisfies readonly (keyof DirectoriesTable)[];

export type ShownDirectory = Pick<DirectoriesTable, (typeof SHOWN)[number]>;
export type ListedDirectory = Pick<DirectoriesTable, (typeof LISTED)[number]>;

/** A part of a list: at most `limit` rows, those that come after the row with the id `after`. */
interface Page {
  readonly limit?: number | undefined;
  readonly after?: string | undefined;
}

export interface DirectoryQueries {
  byId(accountId: string, id: string): Promise<ShownDirectory | undefined>;
  /**
   * Newest first, by `external_id` when one is given.
   * @throws {ValidationError} when `after` is no directory of the account.
   */
  list(accountId: string, filter: Page & { readonly externalId?: string | undefined }): Promise<ListedDirectory[]>;
}

/** Stands before every row of a list that goes down from the newest. */
const NEWEST = { inserted_at: Number.MAX_SAFE_INTEGER, id: '' };

export function directoryQueries(reads: Reads): DirectoryQueries {
  const byId = reads.prepare<{ accountId: string; id: string }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(SHOWN)
      .where('id', '=', p('id'))
      .where('account_id', '=', p('accountId'))
      .where('deleted_at', 'is', null),
  );
  // A deleted directory still marks a place in the list for as long as its row is there.
  const place = reads.prepare<{ accountId: string; id: string }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(['inserted_at', 'id'])
      .where('id', '=', p('id'))
      .where('account_id', '=', p('accountId')),
  );
  interface ListParameters {
    accountId: string;
    inserted_at: number;
    id: string;
    limit: number;
  }
  const all = reads.prepare<ListParameters>()((db, p) =>
    db
      .selectFrom('directories')
      .select(LISTED)
      .where('account_id', '=', p('accountId'))
      .where('deleted_at', 'is', null)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(p('inserted_at'), p('id'))))
      .orderBy('inserted_at', 'desc')
      .orderBy('id', 'desc')
      .limit(p('limit')),
  );
  const byExternalId = reads.prepare<ListParameters & { externalId: string }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(LISTED)
      .where('account_id', '=', p('accountId'))
      .where('external_id', '=', p('externalId'))
      .where('deleted_at', 'is', null)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('inserted_at', 'id'), '<', tuple(p('inserted_at'), p('id'))))
      .orderBy('inserted_at', 'desc')
      .orderBy('id', 'desc')
      .limit(p('limit')),
  );

  return {
    byId: async (accountId, id) => byId.first({ accountId, id }),
    async list(accountId, { externalId, after, limit = Number.MAX_SAFE_INTEGER }) {
      const from = after === undefined ? NEWEST : await place.first({ accountId, id: after });
      if (!from) throw new ValidationError({ after: ['is invalid'] });
      const parameters = { accountId, ...from, limit };
      return externalId === undefined ? all.all(parameters) : byExternalId.all({ ...parameters, externalId });
    },
  };
}
