/** Users of the dashboard, made by its rules. */
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../src/clock.ts';
import type { Config } from '../../src/config.ts';
import { type Database, openDatabase } from '../../src/db/open.ts';
import type { Role } from '../../src/db/schema.ts';
import type { Asker } from '../../src/history/audit.ts';
import { createUser } from '../../src/users/users.ts';

export const PASSWORD = 'correct horse battery staple';

/** A change by the command line. */
export function operator(accountId: string): Asker {
  return { accountId, keyId: 'operator:root', requestId: 'test', route: 'test' };
}

/** Who has a link, and no password yet. */
export async function invited(
  { config }: { readonly config: Pick<Config, 'databaseFile'> },
  accountId: string,
  role: Role = 'admin',
): Promise<{ id: string; email: string; token: string }> {
  const email = `${randomUUID().slice(0, 8)}@example.com`;
  return onDatabase({ config }, (database) =>
    createUser({ database, clock: systemClock() }, { email, role }, operator(accountId)),
  );
}

/** What `use` makes of the database of a berth, which may be running. */
export async function onDatabase<T>(
  { config }: { readonly config: Pick<Config, 'databaseFile'> },
  use: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(config.databaseFile);
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}
