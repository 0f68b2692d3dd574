/**
 * When the kernel last changed each file, so that other bytes of the same size and time are noticed, and the state that a
 * file in check returns to. Rows that exist have neither: `isUnchanged` compares their file with the time of the upload.
 */
import type { Kysely } from 'kysely';

export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('files').addColumn('ctime', 'bigint').execute();
  await schema.alterTable('files').addColumn('returns_to', 'text').execute();
}
