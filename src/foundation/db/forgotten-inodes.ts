/** Handles restored files, whose copies have the same sizes and times but other inodes. */
import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { Tables } from './schema.ts';

/** How many rows one statement changes. A million rows would take longer than a statement may. */
const BATCH_ROWS = 1000;
/** A place before all rows: a file that was found may be older than 1970. */
const FIRST = { uploaded_at: Number.MIN_SAFE_INTEGER, id: '' };

/** The inode for the row of a copied file: `unknownInode` of uploads/record/file-stat.ts, in SQL. */
export function forgottenInode(): RawBuilder<number> {
  return sql<number>`case when mtime > 0 then -1 - mtime else -1 end`;
}

/**
 * Makes the rows of a directory forget their inodes, because all its files have been copied. Goes through the rows in
 * the order of an index.
 */
export async function forgetInodes(tx: Transaction<Tables>, directoryId: string): Promise<void> {
  for (let after: { uploaded_at: number; id: string } | undefined = FIRST; after;) {
    const from: typeof after = after;
    const last = await tx
      .selectFrom('files')
      .select(['uploaded_at', 'id'])
      .where('directory_id', '=', directoryId)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('uploaded_at', 'id'), '>', tuple(from.uploaded_at, from.id)))
      .orderBy('uploaded_at')
      .orderBy('id')
      .offset(BATCH_ROWS - 1)
      .limit(1)
      .executeTakeFirst();
    let update = tx
      .updateTable('files')
      .set({ inode: forgottenInode() })
      .where('directory_id', '=', directoryId)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('uploaded_at', 'id'), '>', tuple(from.uploaded_at, from.id)));
    if (last) {
      update = update.where(({ eb, refTuple, tuple }) =>
        eb(refTuple('uploaded_at', 'id'), '<=', tuple(last.uploaded_at, last.id)),
      );
    }
    await update.execute();
    after = last;
  }
}
