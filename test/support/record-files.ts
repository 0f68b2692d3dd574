/** Rows of files that were never there, for what only reads them. */
import { randomUUID } from 'node:crypto';
import type { Database } from '../../src/foundation/db/open.ts';
import type { FileState } from '../../src/foundation/db/schema.ts';

/** Returns the paths by their new ids. Some are of one moment. */
export async function recordFiles(
  { db }: Pick<Database, 'db'>,
  directory_id: string,
  paths: readonly Buffer[],
  state: FileState = 'uploaded',
): Promise<Map<string, Buffer>> {
  const rows = paths.map((path, index) => ({ id: randomUUID(), path, inode: index + 1, uploaded_at: index >> 3 }));
  const rest = { directory_id, size_bytes: 1, state, mtime: 1, source: 'log', session_pid: null } as const;
  for (let at = 0; at < rows.length; at += 500)
    await db
      .insertInto('files')
      .values(rows.slice(at, at + 500).map((row) => ({ ...row, ...rest })))
      .execute();
  return new Map(rows.map(({ id, path }) => [id, path]));
}
