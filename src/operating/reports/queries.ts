/** Queries for administrators: directories, transfers, webhooks and API changes. A webhook's URL is the only secret in a row. */
import { type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, TransferEvent } from '../../foundation/db/schema.ts';

export interface Filter {
  /** A directory's id. */
  readonly directory?: string | undefined;
  readonly account?: string | undefined;
  readonly since?: Micros | undefined;
  /** Up to and including this moment. */
  readonly until?: Micros | undefined;
  /** How many entries, newest first. */
  readonly limit: number;
}

/** The filter as an SQL condition on these columns. */
function matches(
  { directory, account, since, until }: Filter,
  columns: Readonly<Record<'directory' | 'account' | 'time', string>>,
): RawBuilder<boolean> {
  const conditions = [
    directory !== undefined && sql`${sql.ref(columns.directory)} = ${directory}`,
    account !== undefined && sql`${sql.ref(columns.account)} = ${account}`,
    since !== undefined && sql`${sql.ref(columns.time)} >= ${since}`,
    until !== undefined && sql`${sql.ref(columns.time)} <= ${until}`,
  ];
  return sql<boolean>`${sql.join([sql`true`, ...conditions.filter((condition) => condition !== false)], sql` and `)}`;
}

const DIRECTORY_COLUMNS = [
  'id',
  'account_id',
  'name',
  'slug',
  'external_id',
  'sftp_username',
  'auth_mode',
  'max_connections',
  'retention_days',
  'storage_bytes',
  'webhook_url',
  'inserted_at',
  'updated_at',
] as const;

export type ReportedDirectory = Pick<DirectoryRow, (typeof DIRECTORY_COLUMNS)[number]>;
export type TransferRow = Awaited<ReturnType<typeof listTransfers>>[number];
export type DeliveryRow = Awaited<ReturnType<typeof listDeliveries>>[number];
export type AuditRow = Awaited<ReturnType<typeof listAudit>>[number];

/** The newest live directories, newest first. */
export async function listDirectories({ db }: Database, filter: Filter): Promise<ReportedDirectory[]> {
  return db
    .selectFrom('directories')
    .select(DIRECTORY_COLUMNS)
    .where('deleted_at', 'is', null)
    .where(matches(filter, { directory: 'id', account: 'account_id', time: 'inserted_at' }))
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .execute();
}

/** What is deleted with an account: its keys that are not revoked, and its live directories. */
export async function holdingsOf({ db }: Database, accountId: string) {
  const account = await db
    .selectFrom('accounts')
    .select(['name', 'deleted_at'])
    .where('id', '=', accountId)
    .executeTakeFirst();
  const keys = await db
    .selectFrom('api_keys')
    .select('id')
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null)
    .execute();
  const directories = await db
    .selectFrom('directories')
    .select(['sftp_username', 'storage_bytes'])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('sftp_username')
    .execute();
  return account && { name: account.name, keys: keys.length, directories };
}

/** The directory with a username, even while it is being deleted. */
export async function directoryOf({ db }: Database, username: string): Promise<ReportedDirectory | undefined> {
  const query = db.selectFrom('directories').select(DIRECTORY_COLUMNS).where('sftp_username', '=', username);
  return query.executeTakeFirst();
}

/** The usernames of live directories to which nobody has logged in since that time. */
export async function unusedSince({ db }: Database, since: Micros): Promise<string[]> {
  const rows = await db
    .selectFrom('directories as d')
    .select('d.sftp_username')
    .where('d.deleted_at', 'is', null)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('transfers as t')
            .select('t.id')
            .whereRef('t.directory_id', '=', 'd.id')
            .where('t.event', '=', 'session-opened')
            .where('t.at', '>=', since),
        ),
      ),
    )
    .orderBy('d.sftp_username')
    .execute();
  return rows.map(({ sftp_username }) => sftp_username);
}

export interface TransferFilter extends Filter {
  readonly event?: TransferEvent | undefined;
  /** The id of a row: only rows that were committed after it. */
  readonly after?: number | undefined;
}

/** What SFTP clients did: the newest rows, or the next ones `after` a row; always oldest first. */
export async function listTransfers({ db }: Pick<Database, 'db'>, filter: TransferFilter) {
  let query = db
    .selectFrom('transfers as t')
    .leftJoin('directories as d', 'd.id', 't.directory_id')
    .selectAll('t')
    .select('d.external_id')
    .where(matches(filter, { directory: 't.directory_id', account: 't.account_id', time: 't.at' }))
    .limit(filter.limit);
  if (filter.event !== undefined) query = query.where('t.event', '=', filter.event);
  if (filter.after !== undefined) return query.where('t.id', '>', filter.after).orderBy('t.id').execute();
  return (await query.orderBy('t.at', 'desc').orderBy('t.id', 'desc').execute()).toReversed();
}

/** The id of the row that was committed last; 0 when there is none. */
export async function lastTransfer({ db }: Database): Promise<number> {
  const { last } = await db
    .selectFrom('transfers')
    .select(({ fn }) => fn.max('id').as('last'))
    .executeTakeFirstOrThrow();
  return last ?? 0;
}

/** Webhooks, each with the outcome of its last attempt: the newest rows, oldest first. */
export async function listDeliveries(
  { db }: Pick<Database, 'db'>,
  filter: Filter & { readonly failed?: boolean | undefined; readonly withTests?: boolean },
) {
  let query = db
    .selectFrom('deliveries as d')
    .leftJoin('attempts as a', (join) => join.onRef('a.delivery_id', '=', 'd.id').onRef('a.number', '=', 'd.attempts'))
    .selectAll('d')
    .select(['a.status', 'a.error', 'a.latency_us'])
    .where(matches(filter, { directory: 'd.directory_id', account: 'd.account_id', time: 'd.inserted_at' }))
    .orderBy('d.inserted_at', 'desc')
    .limit(filter.limit);
  // A literal, so that the partial index of failed deliveries can be used.
  if (filter.failed) query = query.where('d.state', '=', sql.lit('failed'));
  if (!filter.withTests) query = query.where('d.event', '<>', 'test');
  return (await query.execute()).toReversed();
}

/** Changes made through the API: the newest rows, oldest first. */
export async function listAudit({ db }: Pick<Database, 'db'>, filter: Filter & { readonly key?: string | undefined }) {
  let query = db
    .selectFrom('audit')
    .leftJoin('api_keys', 'api_keys.id', 'audit.key_id')
    .selectAll('audit')
    .select('api_keys.name as key_name')
    .where(matches(filter, { directory: 'audit.directory_id', account: 'audit.account_id', time: 'audit.at' }))
    .orderBy('audit.at', 'desc')
    .orderBy('audit.id', 'desc')
    .limit(filter.limit);
  if (filter.key !== undefined) query = query.where('audit.key_id', '=', filter.key);
  return (await query.execute()).toReversed();
}
