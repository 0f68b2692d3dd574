/**
 * Since when each file has had its name: with `BERTH_SETTLE_SECONDS`, a file in check waits until that is long enough ago. Rows that
 * exist, and those that a node with an older berth writes, wait for nothing. Files in check are read in the order in which they are due.
 */
import { type Kysely, sql } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('files')
    .addColumn('named_at', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema.dropIndex('files_checking').execute();
  await schema
    .createIndex('files_checking')
    .on('files')
    .columns(['directory_id', 'named_at', 'id'])
    .where(sql.ref('state'), '=', sql.lit('checking'))
    .execute();
}
