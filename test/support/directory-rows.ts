/** Directories as rows alone, in any number: for lists, which look at nothing else. */
import { randomUUID } from 'node:crypto';
import type { Kysely } from 'kysely';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { DEFAULTS } from '../../src/rules/directories/fields.ts';
import { slugOf } from '../../src/rules/directories/identity.ts';

export interface ListedRow {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly sftp_username: string;
  readonly external_id: string | null;
  readonly storage_bytes: number;
  readonly inserted_at: number;
  readonly last_upload_at: number;
}

/** The defaults, and the columns that have to have some value. */
export const PLAIN = {
  ...DEFAULTS,
  sftp_host: '127.0.0.1',
  sftp_port: 22,
  password_hash: '*',
  webhook_secret: 's',
} as const;

let uid = 3_000_000_000;

/** One that is in no database yet. */
export function directoryRow(fields: Partial<ListedRow> & { name: string }): ListedRow {
  const slug = slugOf(fields.name);
  uid += 1;
  return {
    id: randomUUID(),
    slug,
    sftp_username: `${slug.slice(0, 10)}-${uid}`,
    external_id: null,
    storage_bytes: 0,
    inserted_at: 1,
    last_upload_at: 0,
    ...fields,
  };
}

export async function newAccount(db: Kysely<Tables>): Promise<string> {
  const id = randomUUID();
  await db.insertInto('accounts').values({ id, name: 'Test', plan: 'business', inserted_at: 1 }).execute();
  return id;
}

export async function insertDirectories(
  db: Kysely<Tables>,
  accountId: string,
  rows: readonly ListedRow[],
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    for (const row of rows) {
      const own = (uid += 1); // another insert may run meanwhile
      await tx.insertInto('principals').values({ uid: own, username: row.sftp_username }).execute();
      await tx
        .insertInto('directories')
        .values({ ...PLAIN, ...row, uid: own, updated_at: 1, account_id: accountId })
        .execute();
    }
  });
}
