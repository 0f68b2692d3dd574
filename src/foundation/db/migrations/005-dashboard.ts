/** The dashboard's users, the links by which they set a password, their sessions and second factors. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isPostgres } from '../dialect.ts';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('accounts').addColumn('second_factor_required_at', 'bigint').execute();
  await db.schema.alterTable('api_keys').addColumn('created_by', 'text').execute();

  await db.schema
    .createTable('users')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id').onDelete('cascade'))
    .addColumn('email', 'text', (c) => c.notNull().unique())
    .addColumn('role', 'text', (c) => c.notNull().check(sql`role in ('admin', 'member')`))
    .addColumn('password_hash', 'text')
    .addColumn('totp_secret', 'text')
    .addColumn('totp_step', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('oidc_subject', 'text', (c) => c.unique())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('signed_in_at', 'bigint')
    .addColumn('signed_in_from', 'text')
    .addColumn('disabled_at', 'bigint')
    .execute();
  await db.schema.createIndex('users_of_account').on('users').columns(['account_id', 'email']).execute();

  await db.schema
    .createTable('user_links')
    .addColumn('hash', 'text', (c) => c.primaryKey())
    .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .execute();

  await db.schema
    .createTable('user_sessions')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('hash', 'text', (c) => c.notNull().unique())
    .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
    .addColumn('awaits_code', 'integer', (c) => c.notNull())
    .addColumn('address', 'text', (c) => c.notNull())
    .addColumn('agent', 'text', (c) => c.notNull())
    .addColumn('inserted_at', 'bigint', (c) => c.notNull())
    .addColumn('seen_at', 'bigint', (c) => c.notNull())
    .execute();
  await db.schema.createIndex('user_sessions_of_user').on('user_sessions').column('user_id').execute();

  await db.schema
    .createTable('recovery_codes')
    .addColumn('user_id', 'text', (c) => c.notNull().references('users.id').onDelete('cascade'))
    .addColumn('hash', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('recovery_codes_pk', ['user_id', 'hash'])
    .execute();

  await listDirectories(db);

  // To find the directories of an account with failed deliveries (`deliveries/webhooks/health.ts`).
  await db.schema
    .createIndex('deliveries_failed_in_account')
    .on('deliveries')
    .columns(['account_id', 'directory_id'])
    .where(sql.ref('state'), '=', sql.lit('failed'))
    .execute();

  // For the deliveries of a directory by state; 004 made the index for failed ones.
  for (const [name, isInState] of [
    ['open', sql<boolean>`state in ('queued', 'running', 'waiting')`],
    ['delivered', sql<boolean>`state = 'delivered'`],
  ] as const)
    await db.schema
      .createIndex(`deliveries_${name}_of`)
      .on('deliveries')
      .columns(['directory_id', 'inserted_at'])
      .where(isInState)
      .execute();

  await db.schema.createIndex('audit_by_account').on('audit').columns(['account_id', 'at', 'id']).execute();

  await db.schema
    .createTable('daily_uploads')
    .addColumn('account_id', 'text', (c) => c.notNull())
    .addColumn('day', 'bigint', (c) => c.notNull())
    .addColumn('uploads', 'bigint', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('daily_uploads_pk', ['account_id', 'day'])
    .execute();
  await sql`
    insert into daily_uploads (account_id, day, uploads, bytes)
    select account_id, at - at % 86400000000, count(*), coalesce(sum(bytes), 0)
    from transfers where event = 'uploaded' group by 1, 2`.execute(db);
}

/**
 * Adds the text in which the list of directories is searched, and an index for each of its orders, which the search reads
 * (`rules/directories/view.ts`). The index by time replaces the one of 001.
 */
async function listDirectories(db: Kysely<unknown>): Promise<void> {
  const line = sql.lit('\n');
  const searched = sql`lower(name || ${line} || slug || ${line} || sftp_username || ${line} || coalesce(external_id, ''))`;
  const { schema } = db;
  await schema
    .alterTable('directories')
    .addColumn('search', 'text', (c) => c.generatedAlwaysAs(searched))
    .execute();
  await schema
    .alterTable('directories')
    .addColumn('last_upload_at', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute();
  await sql`
    update directories set last_upload_at = coalesce(
      (select max(uploaded_at) from files where directory_id = directories.id and state = 'uploaded'), 0
    )`.execute(db);
  await schema.dropIndex('directories_by_account').execute();
  for (const [name, columns] of [
    ['created', ['inserted_at', 'id', 'search']],
    ['name', ['search', 'id']],
    // With `deleted_at`, the index alone gives the sum that an account stores.
    ['storage', ['storage_bytes', 'id', 'search', 'deleted_at']],
    ['upload', ['last_upload_at', 'id', 'search']],
  ] as const)
    await schema
      .createIndex(`directories_listed_by_${name}`)
      .on('directories')
      .columns(['account_id', ...columns])
      .where(sql.ref('deleted_at'), 'is', null)
      .execute();
  await findDirectories(db);
  await keepLogins(db);
}

/** Adds storage and refused logins by day and account, and the logins of each directory. */
async function keepLogins({ schema }: Kysely<unknown>): Promise<void> {
  for (const [table, value] of [
    ['daily_storage', 'bytes'],
    ['daily_refusals', 'refusals'],
  ] as const)
    await schema
      .createTable(table)
      .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id').onDelete('cascade'))
      .addColumn('day', 'bigint', (c) => c.notNull())
      .addColumn(value, 'bigint', (c) => c.notNull())
      .addPrimaryKeyConstraint(`${table}_pk`, ['account_id', 'day'])
      .execute();
  await schema
    .createTable('logins')
    .addColumn('id', 'integer', (c) => c.primaryKey().autoIncrement())
    .addColumn('directory_id', 'text', (c) => c.notNull().references('directories.id').onDelete('cascade'))
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull().check(sql`kind in ('login', 'refused')`))
    .addColumn('address', 'text')
    .addColumn('text', 'text', (c) => c.notNull())
    .execute();
  await schema.createIndex('logins_by_directory').on('logins').columns(['directory_id', 'at']).execute();
  await schema.createIndex('logins_by_age').on('logins').column('at').execute();
  await schema
    .createTable('login_log')
    .addColumn('node', 'text', (c) => c.primaryKey())
    .addColumn('read_until', 'bigint', (c) => c.notNull())
    .execute();
}

/** An index of trigrams of `search`, some 50 bytes for each directory (`db/lists.ts`). SQLite's uses the uid: a rowid may change. */
async function findDirectories(db: Kysely<unknown>): Promise<void> {
  if (isPostgres(db)) {
    await sql`create extension if not exists pg_trgm`.execute(db);
    await sql`create index directory_trigrams on directories using gin (search gin_trgm_ops)`.execute(db);
    return;
  }
  const add = (of: 'new' | 'directories'): RawBuilder<unknown> =>
    sql`insert into directory_trigrams (rowid, search) select ${sql.ref(`${of}.uid`)}, ${sql.ref(`${of}.search`)}`;
  const remove = sql`insert into directory_trigrams (directory_trigrams, rowid, search) values ('delete', old.uid, old.search)`;
  await sql`
    create virtual table directory_trigrams using fts5 (
      search, content = directories, content_rowid = uid, tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0
    )`.execute(db);
  await sql`${add('directories')} from directories`.execute(db);
  await sql`create trigger directory_comes after insert on directories begin ${add('new')}; end`.execute(db);
  await sql`create trigger directory_goes after delete on directories begin ${remove}; end`.execute(db);
  await sql`
    create trigger directory_is_renamed after update of name, slug, sftp_username, external_id on directories
    begin ${remove}; ${add('new')}; end`.execute(db);
}
