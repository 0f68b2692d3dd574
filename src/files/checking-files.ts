/** Files that have arrived and are not announced yet: the checker has not passed them (`checks/`). */
import { type Kysely, sql } from 'kysely';
import type { FilesTable, Tables } from '../db/schema.ts';
import { BerthError } from '../base/errors.ts';

/** A literal, so that the index of just these can be used. */
export const CHECKING = sql.lit('checking' as const);

/** @throws {BerthError} `upload_not_found`. */
export async function checkingOf(db: Kysely<Tables>, directoryId: string, id: string): Promise<FilesTable> {
  const row = await db
    .selectFrom('files')
    .selectAll()
    .where('id', '=', id)
    .where('directory_id', '=', directoryId)
    .where('state', '=', CHECKING)
    .executeTakeFirst();
  if (!row) throw new BerthError('upload_not_found', 'No file of that id is being checked; it may be an upload by now');
  return row;
}
