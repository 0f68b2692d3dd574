/**
 * An email is unique within an account instead of among all accounts. Also the networks from which users have signed in, the number of
 * codes tried, and the size of the answers kept for Idempotency-Keys.
 */
import { type CreateTableBuilder, type Kysely, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  await (isPostgres(db) ? dropUniqueEmail(db) : rebuildUsers(db));
  await db.schema.createIndex('users_by_email').on('users').column('email').execute();

  await db.schema
    .createTable('user_networks')
    .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
    .addColumn('network', 'text', (c) => c.notNull())
    .addColumn('seen_at', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('user_networks_pk', ['user_id', 'network'])
    .execute();
  await db.schema
    .createTable('code_tries')
    .addColumn('user_id', 'text', (c) => c.primaryKey().references('users.id').onDelete('cascade'))
    .addColumn('count', 'integer', (c) => c.notNull())
    .addColumn('until', 'bigint', (c) => c.notNull())
    .execute();
  await db.schema
    .createTable('kept_answer_totals')
    .addColumn('account_id', 'text', (c) => c.primaryKey())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .execute();
  await sql`
    insert into kept_answer_totals (account_id, bytes)
    select account_id, sum(length(answer)) from kept_answers group by account_id`.execute(db);
}

async function dropUniqueEmail({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('users').dropConstraint('users_email_key').execute();
  await schema.dropIndex('users_of_account').execute();
  await schema.alterTable('users').addUniqueConstraint('users_of_account', ['account_id', 'email']).execute();
}

/**
 * Rebuilds `users`, since SQLite cannot drop a constraint. The tables that refer to it are rebuilt, too: dropping a table that others
 * refer to would delete their rows.
 */
async function rebuildUsers(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropIndex('users_of_account').execute();
  await db.schema.dropIndex('user_sessions_of_user').execute();
  await db.schema.alterTable('users').renameTo('users_before').execute();
  await db.schema
    .createTable('users')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id').onDelete('cascade'))
    .addColumn('email', 'text', (c) => c.notNull())
    .addColumn('role', 'text', (c) => c.notNull().check(sql`role in ('admin', 'member')`))
    .addColumn('password_hash', 'text')
    .addColumn('totp_secret', 'text')
    .addColumn('totp_step', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('oidc_subject', 'text', (c) => c.unique())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('signed_in_at', 'bigint')
    .addColumn('signed_in_from', 'text')
    .addColumn('disabled_at', 'bigint')
    .addUniqueConstraint('users_of_account', ['account_id', 'email'])
    .execute();
  await sql`insert into users select * from users_before`.execute(db);
  await rebuild(db, 'user_links', (table) =>
    table
      .addColumn('hash', 'text', (c) => c.primaryKey())
      .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
      .addColumn('expires_at', 'bigint', (c) => c.notNull()),
  );
  await rebuild(db, 'user_sessions', (table) =>
    table
      .addColumn('id', 'text', (c) => c.primaryKey())
      .addColumn('hash', 'text', (c) => c.notNull().unique())
      .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
      .addColumn('awaits_code', 'integer', (c) => c.notNull())
      .addColumn('address', 'text', (c) => c.notNull())
      .addColumn('agent', 'text', (c) => c.notNull())
      .addColumn('inserted_at', 'bigint', (c) => c.notNull())
      .addColumn('seen_at', 'bigint', (c) => c.notNull()),
  );
  await db.schema.createIndex('user_sessions_of_user').on('user_sessions').column('user_id').execute();
  await rebuild(db, 'recovery_codes', (table) =>
    table
      .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
      .addColumn('hash', 'text', (c) => c.notNull())
      .addPrimaryKeyConstraint('recovery_codes_pk', ['user_id', 'hash']),
  );
  await db.schema.dropTable('users_before').execute();
}

type Columns = (table: CreateTableBuilder<string>) => CreateTableBuilder<string>;

async function rebuild(db: Kysely<unknown>, name: string, columns: Columns): Promise<void> {
  await db.schema.alterTable(name).renameTo(`${name}_before`).execute();
  await columns(db.schema.createTable(name)).execute();
  await sql`insert into ${sql.table(name)} select * from ${sql.table(`${name}_before`)}`.execute(db);
  await db.schema.dropTable(`${name}_before`).execute();
}
