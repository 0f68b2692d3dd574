/** Files that were copied keep their sizes and times, not their inodes. */
import { type RawBuilder, sql } from 'kysely';

/** What the inode of a row becomes whose file was copied: `unknownInode` of uploads/record/file-stat.ts, in SQL. */
export function forgottenInode(): RawBuilder<number> {
  return sql<number>`case when mtime > 0 then -1 - mtime else -1 end`;
}
