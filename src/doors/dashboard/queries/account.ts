/** Queries about the account: its second factor, its directories, and who made its keys. */
import type { Kysely } from 'kysely';
import { among } from '../../../foundation/db/dialect.ts';
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
    .where('sftp_username', 'in', among(reads, usernames))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
}

/** The names of those of the account's directories that are not deleted, by id. */
export async function namesOf(reads: Kysely<Tables>, accountId: string, ids: readonly string[]) {
  const rows = await reads
    .selectFrom('directories')
    .select(['id', 'name'])
    .where('id', 'in', among(reads, ids))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
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
