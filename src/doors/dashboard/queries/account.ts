/** Queries for the Account page: the required second factor, and the audit with its names. */
import { type Kysely, sql } from 'kysely';
import { listed } from '../../../foundation/db/dialect.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { ValidationError } from '../../../foundation/base/errors.ts';

export async function isSecondFactorRequired(reads: Kysely<Tables>, accountId: string): Promise<boolean> {
  const account = reads.selectFrom('accounts').select('second_factor_required_at').where('id', '=', accountId);
  return (await account.executeTakeFirstOrThrow()).second_factor_required_at !== null;
}

/**
 * The id of the newest directory whose webhooks go to the account's URL.
 * @throws {ValidationError} when there is none, or no URL.
 */
export async function directoryForTest(reads: Kysely<Tables>, accountId: string): Promise<string> {
  const row = await reads
    .selectFrom('directories as d')
    .innerJoin('account_webhooks as w', 'w.account_id', 'd.account_id')
    .select('d.id')
    .where('d.account_id', '=', accountId)
    .where('d.deleted_at', 'is', null)
    .where('d.webhook_url', 'is', null)
    .where('d.uses_account_webhook', '=', 1)
    .where('w.url', 'is not', null)
    .orderBy('d.inserted_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!row) throw new ValidationError({ webhook_url: ['has no directory'] });
  return row.id;
}

/** The account's directories that have one of these usernames. */
export async function directoriesOfUsers(reads: Kysely<Tables>, accountId: string, usernames: readonly string[]) {
  if (usernames.length === 0) return [];
  return reads
    .selectFrom('directories')
    .select(['id', 'name', 'sftp_username'])
    .where('sftp_username', 'in', sql<string>`(${listed(reads, usernames, 'text')})`)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
}

/** The names of public keys in the account's directories: their comments, by fingerprint. */
export async function keyNames(reads: Kysely<Tables>, accountId: string, fingerprints: readonly string[]) {
  if (fingerprints.length === 0) return new Map<string, string>();
  const rows = await reads
    .selectFrom('public_keys as k')
    .innerJoin('directories as d', 'd.id', 'k.directory_id')
    .select(['k.fingerprint', 'k.comment'])
    .where('k.fingerprint', 'in', [...new Set(fingerprints)])
    .where('d.account_id', '=', accountId)
    .execute();
  return new Map(rows.flatMap(({ fingerprint, comment }) => (comment ? [[fingerprint, comment] as const] : [])));
}

/** The names of the API keys that made these keys or links, by the makers' ids. */
export async function makersOf(
  reads: Kysely<Tables>,
  accountId: string,
  made: readonly { readonly created_by: string | null }[],
): Promise<ReadonlyMap<string, string>> {
  const ids = made.flatMap(({ created_by }) => created_by ?? []);
  if (ids.length === 0) return new Map();
  const keys = reads.selectFrom('api_keys').select(['id', 'name']).where('id', 'in', ids);
  const rows = await keys.where('account_id', '=', accountId).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** ` by dana@example.com`, or ` by key "nightly import"`; empty if nobody is known. */
export function madeBy(created_by: string | null, makers: ReadonlyMap<string, string>): string {
  if (created_by === null) return '';
  const name = makers.get(created_by);
  return ` by ${name === undefined ? created_by.replace(/^\w+:/, '') : `key "${name}"`}`;
}

export type AuditRow = Awaited<ReturnType<typeof auditOf>>[number];

/** Rows of the audit before the row `<at>-<id>`, newest first. `directory` is one of the account's. */
export function auditOf(
  reads: Kysely<Tables>,
  accountId: string,
  { directory, before, limit }: { directory?: string | undefined; before?: string | undefined; limit: number },
) {
  let query = reads
    .selectFrom('audit as u')
    .leftJoin('api_keys as k', 'k.id', 'u.key_id')
    .leftJoin('directories as d', (join) => join.onRef('d.id', '=', 'u.directory_id').on('d.deleted_at', 'is', null))
    .selectAll('u')
    .select(['k.name as key_name', 'd.id as live_id'])
    .orderBy('u.at', 'desc')
    .orderBy('u.id', 'desc')
    .limit(limit);
  // Only one of the two conditions, so that the database has only one index to choose.
  if (directory === undefined) query = query.where('u.account_id', '=', accountId);
  else query = query.where('u.directory_id', '=', directory);
  const [, at, id] = /^(\d{1,16})-(\d{1,16})$/.exec(before ?? '') ?? [];
  if (at === undefined) return query.execute();
  return query
    .where(({ eb, refTuple, tuple }) => eb(refTuple('u.at', 'u.id'), '<', tuple(Number(at), Number(id))))
    .execute();
}
