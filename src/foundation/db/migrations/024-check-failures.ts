/** The reason why a waiting file could not be checked, which the lists of held files show. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('files').addColumn('check_failure', 'text').execute();
}
