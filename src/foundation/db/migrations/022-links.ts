/**
 * A row for each link, with a hash of its token, so that links can be listed and revoked one by one. They replace links that
 * were signed, which only builds before 0.2.0 made: those do not work any more.
 */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.dropTable('link_uses').execute();
  await schema.alterTable('directories').dropColumn('link_secret').execute();
  await schema
    .createTable('links')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('hash', 'text', (c) => c.notNull().unique())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('path', 'blob', (c) => c.notNull())
    .addColumn('is_folder', 'integer', (c) => c.notNull())
    .addColumn('max_bytes', 'bigint')
    .addColumn('once', 'integer', (c) => c.notNull())
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('created_by', 'text')
    .addColumn('used_at', 'bigint')
    .addColumn('pending', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  await schema.createIndex('links_by_directory').on('links').columns(['directory_id', 'inserted_at', 'id']).execute();
  await schema.alterTable('placements').addColumn('link_id', 'text').execute();
}
