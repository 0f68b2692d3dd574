/** A link can show a directory's password once. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('links').addColumn('password', 'blob').execute();
}
