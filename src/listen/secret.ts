/** Looks up webhook secrets in this machine's database, when there is one that may be read. */
import { existsSync } from 'node:fs';
import { openDatabase } from '../db/open.ts';

/** The secret of a directory; undefined when there is no such directory, or no database, which is then not made. */
export async function secretInDatabase(file: string, directoryId: string): Promise<string | undefined> {
  if (!existsSync(file)) return undefined;
  const database = await openDatabase(file);
  try {
    const row = await database.db
      .selectFrom('directories')
      .select('webhook_secret')
      .where('id', '=', directoryId)
      .executeTakeFirst();
    return row?.webhook_secret;
  } finally {
    await database.close();
  }
}
