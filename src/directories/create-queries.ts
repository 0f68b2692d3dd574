/** What a create asks of the database, inside its transaction; built and compiled once. */
import { sql } from 'kysely';
import { prepared } from '../db/prepared.ts';
import type { DirectoriesTable } from '../db/schema.ts';

export const planOf = prepared<{ accountId: string }>()((db, p) =>
  db.selectFrom('accounts').select('plan').where('id', '=', p('accountId')),
);

/** How many live directories the account has. */
export const countOf = prepared<{ accountId: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('account_id', '=', p('accountId'))
    .where('deleted_at', 'is', null),
);

/** Gives the username the next UID, `firstUid` when there is none yet. Nothing comes back when the username is taken. */
export const insertPrincipal = prepared<{ username: string; firstUid: number }>()((db, p) =>
  db
    .insertInto('principals')
    .columns(['uid', 'username'])
    .expression(
      (from) =>
        from
          .selectFrom('principals')
          .select(({ fn, val }) => [
            fn.coalesce(sql<number>`max(uid) + 1`, val(p('firstUid'))).as('uid'),
            val(p('username')).as('username'),
          ])
          .where(sql<boolean>`true`), // tells the conflict's ON from a join's (sqlite.org, "UPSERT", section 2.1)
    )
    .onConflict((conflict) => conflict.column('username').doNothing())
    .returning('uid'),
);

export const insertDirectory = prepared<DirectoriesTable>()((db, p) =>
  db.insertInto('directories').values({
    id: p('id'),
    account_id: p('account_id'),
    name: p('name'),
    description: p('description'),
    slug: p('slug'),
    external_id: p('external_id'),
    metadata: p('metadata'),
    sftp_host: p('sftp_host'),
    sftp_port: p('sftp_port'),
    sftp_username: p('sftp_username'),
    uid: p('uid'),
    password_hash: p('password_hash'),
    webhook_url: p('webhook_url'),
    webhook_secret: p('webhook_secret'),
    max_connections: p('max_connections'),
    storage_bytes: p('storage_bytes'),
    retention_days: p('retention_days'),
    auth_mode: p('auth_mode'),
    public_key: p('public_key'),
    public_key_fingerprint: p('public_key_fingerprint'),
    inserted_at: p('inserted_at'),
    updated_at: p('updated_at'),
    deleted_at: p('deleted_at'),
  }),
);
