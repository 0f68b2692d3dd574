/** Links for people without an SFTP client: each directory's link secret, and the uses of links that work once. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('directories').addColumn('link_secret', 'text').execute();
  await schema.alterTable('transfers').addColumn('via', 'text').execute();
  await schema.alterTable('placements').addColumn('via', 'text').execute();
  await schema.alterTable('placements').addColumn('address', 'text').execute();
  await schema
    .alterTable('placements')
    .addColumn('recorded', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema
    .createTable('link_uses')
    .addColumn('digest', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('inode', 'bigint')
    .addColumn('pending', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema.createIndex('link_uses_by_directory').on('link_uses').columns(['directory_id', 'expires_at']).execute();
}
