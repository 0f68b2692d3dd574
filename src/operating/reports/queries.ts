/** Queries for administrators: transfers and API changes, what an account holds, and which directories nobody uses. */
import { type RawBuilder, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { type Owner, ownedBy } from '../../foundation/db/lists.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { TransferEvent } from '../../foundation/db/schema.ts';

export interface Filter {
  /** Undefined for the rows of all accounts. */
  readonly owner?: Owner | undefined;
  readonly since?: Micros | undefined;
  /** How many entries, newest first. */
  readonly limit: number;
}

/** The filter as an SQL condition on a table of the history. */
function matches({ owner, since }: Filter, table: string): RawBuilder<boolean> {
  const whose = owner ? ownedBy(owner, table) : sql<boolean>`true`;
  return since === undefined ? whose : sql<boolean>`${whose} and ${sql.ref(`${table}.at`)} >= ${since}`;
}

export type TransferRow = Awaited<ReturnType<typeof listTransfers>>[number];
export type AuditRow = Awaited<ReturnType<typeof listAudit>>[number];

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
    .where(matches(filter, 't'))
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

/** Changes made through the API: the newest rows, oldest first. */
export async function listAudit({ db }: Pick<Database, 'db'>, filter: Filter & { readonly key?: string | undefined }) {
  let query = db
    .selectFrom('audit')
    .leftJoin('api_keys', 'api_keys.id', 'audit.key_id')
    .selectAll('audit')
    .select('api_keys.name as key_name')
    .where(matches(filter, 'audit'))
    .orderBy('audit.at', 'desc')
    .orderBy('audit.id', 'desc')
    .limit(filter.limit);
  if (filter.key !== undefined) query = query.where('audit.key_id', '=', filter.key);
  return (await query.execute()).toReversed();
}
