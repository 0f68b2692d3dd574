/** Why a file that waits for its check could not be checked, for whoever lists it. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('files').addColumn('check_failure', 'text').execute();
}
