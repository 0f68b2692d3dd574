/**
 * The history of a whole account is read by an index, and so are its directories to which nobody can log in. A login belongs to an
 * account; nodes with an older berth still write logins without one, which only their directory's history shows.
 */
import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('logins').addColumn('account_id', 'text').execute();
  await sql`
    update logins set account_id = (select account_id from directories where id = logins.directory_id)`.execute(db);
  for (const table of ['transfers', 'logins'])
    await db.schema.createIndex(`${table}_by_account`).on(table).columns(['account_id', 'at']).execute();
  await db.schema
    .createIndex('directories_without_key')
    .on('directories')
    .columns(['account_id', 'inserted_at'])
    .where(sql<boolean>`auth_mode = 'public_key' and public_key is null and deleted_at is null`)
    .execute();
}
