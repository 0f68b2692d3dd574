/** Which bytes a single-use link has sent, and which it is sending. */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('links').addColumn('sent', 'text').execute();
  await schema.alterTable('links').addColumn('sending', 'text').execute();
}
