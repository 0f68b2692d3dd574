/** Migrations: from every earlier schema with data, complete or not at all, never backward, and with a copy kept. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { type Kysely, sql } from 'kysely';
import { migrations } from '../../src/foundation/db/migrations/index.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

type Rows = Record<string, unknown>[];

const names = Object.keys(migrations);
const only = (count: number) => Object.fromEntries(Object.entries(migrations).slice(0, count));

function databaseFile(place: Scratch): string {
  mkdirSync(place.config.stateDir, { recursive: true });
  return place.config.databaseFile;
}

function tablesOf(sqlite: Sqlite.Database): string[] {
  return sqlite
    .prepare<[], string>(
      // Without virtual tables and what SQLite keeps of them.
      "select name from pragma_table_list where type = 'table' and name not like 'sqlite%' and name not like 'kysely%' order by name",
    )
    .pluck()
    .all();
}

/** Values that satisfy each table's checks; every other column is filled by its type. */
const VALUES: Record<string, unknown> = {
  plan: 'pro',
  role: 'admin',
  auth_mode: 'both',
  state: 'waiting',
  source: 'log',
  kind: 'login',
  attempts: 2,
  number: 1,
  account_id: 'id',
  directory_id: 'id',
  delivery_id: 'id',
  user_id: 'id',
  sftp_username: 'username',
  uid: 7,
};

/** What later migrations drop on purpose. */
const DROPPED: Record<string, readonly string[]> = { deliveries: ['signature'], directories: ['link_secret'] };
const DROPPED_TABLES: ReadonlySet<string> = new Set([
  'link_uses',
  // 029 has a test of its own.
  'daily_uploads',
  'daily_storage',
  'daily_refusals',
  'directory_days',
]);

/** Two rows would need more than one set of keys: one of each table is enough to see what becomes of it. */
function fill(file: string): Map<string, Rows> {
  const sqlite = new Sqlite(file);
  sqlite.pragma('foreign_keys = off');
  const filled = new Map<string, Rows>();
  for (const table of tablesOf(sqlite)) {
    const columns = sqlite.pragma(`table_info(${table})`) as { name: string; type: string }[];
    const values = columns.map(({ name, type }) => {
      // An account and a directory never have the same id.
      if (table === 'directory_days' && name === 'directory_id') return 'directory';
      if (name in VALUES) return VALUES[name];
      if (/int/i.test(type)) return 1_795_000_000_000_001;
      return /blob/i.test(type) ? Buffer.from([0xff, 0x00]) : name;
    });
    sqlite.prepare(`insert into ${table} values (${columns.map(() => '?').join(', ')})`).run(values);
    filled.set(table, sqlite.prepare(`select * from ${table}`).all() as Rows);
  }
  assert.deepEqual(sqlite.pragma('foreign_key_check'), []);
  sqlite.close();
  return filled;
}

function schemaOf(file: string): unknown[] {
  const sqlite = new Sqlite(file, { readonly: true });
  const schema = sqlite.prepare('select type, name, sql from sqlite_master order by type, name').all();
  sqlite.close();
  return schema;
}

for (let count = 1; count < names.length; count += 1) {
  test(`a database with data as ${names[count - 1]} left it becomes the present one, and loses nothing`, async () => {
    using place = scratch();
    const file = databaseFile(place);
    await (await openDatabase(file, { known: only(count) })).close();
    const before = fill(file);
    await (await openDatabase(file)).close();

    const sqlite = new Sqlite(file, { readonly: true });
    for (const [table, rows] of before) {
      if (DROPPED_TABLES.has(table)) continue;
      const after = sqlite.prepare(`select * from ${table}`).all() as Rows;
      // Later migrations may add columns.
      const kept = rows.map((row) =>
        Object.fromEntries(Object.entries(row).filter(([column]) => !DROPPED[table]?.includes(column))),
      );
      assert.deepEqual(
        after.map((row, i) => ({ ...row, ...kept[i] })),
        after,
        table,
      );
      assert.equal(after.length, rows.length);
    }
    assert.deepEqual(sqlite.pragma('foreign_key_check'), []);
    assert.equal(sqlite.pragma('integrity_check', { simple: true }), 'ok');
    sqlite.close();

    using another = scratch();
    await (await openDatabase(databaseFile(another))).close();
    assert.deepEqual(schemaOf(file), schemaOf(another.config.databaseFile));

    const copy = `${file}.before-${names[count]}`;
    assert.equal(statSync(copy).mode & 0o777, 0o600);
    assert.deepEqual(new Map(before), readBack(copy));
  });
}

function readBack(file: string): Map<string, Rows> {
  const sqlite = new Sqlite(file, { readonly: true });
  const rows = tablesOf(sqlite).map(
    (table) => [table, sqlite.prepare(`select * from ${table}`).all() as Rows] as const,
  );
  sqlite.close();
  return new Map(rows);
}

test('each file in migrations/ is run, in its order', () => {
  const files = readdirSync(new URL('../../src/foundation/db/migrations/', import.meta.url));
  const numbered = files.filter((file) => /^\d/.test(file)).map((file) => basename(file, '.ts'));
  assert.deepEqual(names, numbered.toSorted());
});

test('005 sums the uploads in the history by day, and sets each directory’s time of its last file', async () => {
  using place = scratch();
  const file = databaseFile(place);
  await (await openDatabase(file, { known: only(4) })).close();
  fill(file);
  const sqlite = new Sqlite(file);
  const day = 86_400_000_000;
  const insert = sqlite.prepare(
    "insert into transfers (at, event, directory_id, account_id, username, bytes) values (?, ?, 'directory', ?, 'u', ?)",
  );
  insert.run(3 * day - 1, 'uploaded', 'id', 5);
  insert.run(3 * day, 'uploaded', 'id', 6);
  insert.run(4 * day - 1, 'uploaded', 'id', null);
  insert.run(3 * day, 'downloaded', 'id', 7);
  insert.run(3 * day, 'uploaded', 'other', 8);
  sqlite.exec("update transfers set event = 'removed' where username <> 'u'; update files set state = 'uploaded'");
  sqlite.close();
  await (await openDatabase(file)).close();
  const after = new Sqlite(file, { readonly: true });
  const totals = after.prepare(
    "select owner_id, day, count, bytes from daily_totals where kind = 'uploads' and owner_id <> 'directory' order by 1, 2",
  );
  assert.deepEqual(totals.raw().all(), [
    ['id', 2 * day, 1, 5],
    ['id', 3 * day, 2, 6],
    ['other', 3 * day, 1, 8],
  ]);
  const last = after.prepare('select last_upload_at from directories').pluck().get();
  assert.equal(last, after.prepare('select uploaded_at from files').pluck().get());
  after.close();
});

test('029 takes all totals by day over into one table', async () => {
  using place = scratch();
  const file = databaseFile(place);
  await (await openDatabase(file, { known: only(names.indexOf('029-daily-totals')) })).close();
  const sqlite = new Sqlite(file);
  sqlite.exec(`
    insert into accounts (id, name, plan, inserted_at) values ('a', 'A', 'pro', 1);
    insert into daily_uploads (account_id, day, uploads, bytes) values ('a', 1, 2, 3);
    insert into daily_storage (account_id, day, bytes) values ('a', 1, 4);
    insert into daily_refusals (account_id, day, refusals) values ('a', 1, 5);
    insert into directory_days (directory_id, day, uploads, bytes, stored) values ('d', 1, 6, 7, 8), ('d', 2, 0, 0, null)`);
  sqlite.close();
  await (await openDatabase(file)).close();
  const after = new Sqlite(file, { readonly: true });
  const totals = after.prepare('select owner_id, kind, day, count, bytes from daily_totals order by 1, 2, 3');
  assert.deepEqual(totals.raw().all(), [
    ['a', 'refusals', 1, 5, 0],
    ['a', 'storage', 1, 0, 4],
    ['a', 'uploads', 1, 2, 3],
    ['d', 'storage', 1, 0, 8],
    ['d', 'uploads', 1, 6, 7],
    ['d', 'uploads', 2, 0, 0],
  ]);
  after.close();
});

test('only the copy before the latest migration is kept', async () => {
  using place = scratch();
  const file = databaseFile(place);
  const step = (name: string) => ({
    [name]: { up: (db: Kysely<unknown>) => sql`select 1`.execute(db).then(() => undefined) },
  });
  await (await openDatabase(file)).close();
  const further = { ...migrations, ...step('998-further') };
  await (await openDatabase(file, { known: further })).close();
  await (await openDatabase(file, { known: { ...further, ...step('999-furthest') } })).close();
  const copies = readdirSync(dirname(file)).filter((name) => name.includes('.before-'));
  assert.deepEqual(copies, [`${basename(file)}.before-999-furthest`]);
});

test('a database of a newer berth is refused with one line, and is as it was', async () => {
  using place = scratch();
  const file = databaseFile(place);
  const newer = {
    ...migrations,
    '999-newer': {
      up: (db: Kysely<unknown>) => sql`create table newer (id integer)`.execute(db).then(() => undefined),
    },
  };
  await (await openDatabase(file, { known: newer })).close();
  const before = schemaOf(file);
  await assert.rejects(openDatabase(file), (error) => {
    assert.ok(error instanceof OperatorError);
    assert.match(error.message, /^[^\n]*written by a newer berth \(migration 999-newer\): install that version[^\n]*$/);
    return true;
  });
  assert.deepEqual(schemaOf(file), before);
});

/** Opens with one more migration that is killed half-way through. */
const KILLED = `
import { sql } from 'kysely';
import { migrations } from ${JSON.stringify(new URL('../../src/foundation/db/migrations/index.ts', import.meta.url).href)};
import { openDatabase } from ${JSON.stringify(new URL('../../src/foundation/db/open.ts', import.meta.url).href)};
await openDatabase(process.env.DATABASE_FILE, { known: {
  ...migrations,
  '999-killed': {
    async up(db) {
      await sql\`create table half (id integer)\`.execute(db);
      await sql\`update accounts set name = 'half'\`.execute(db);
      await sql\`drop table attempts\`.execute(db);
      process.kill(process.pid, 'SIGKILL');
    },
  },
} });
`;

test('a crash in the middle of a migration leaves the schema and the data before it', async () => {
  using place = scratch();
  const file = databaseFile(place);
  await (await openDatabase(file)).close();
  const [data, schema] = [fill(file), schemaOf(file)];
  const child = spawnSync(process.execPath, ['--input-type=module', '--eval', KILLED], {
    env: { ...process.env, DATABASE_FILE: file },
    cwd: new URL('../..', import.meta.url).pathname,
    encoding: 'utf8',
  });
  assert.equal(child.signal, 'SIGKILL', child.stderr);
  assert.ok(existsSync(`${file}.before-999-killed`));
  await (await openDatabase(file)).close();
  assert.deepEqual(schemaOf(file), schema);
  assert.deepEqual(readBack(file), data);
});

test('without room for the copy nothing is migrated', async () => {
  using place = scratch();
  const file = databaseFile(place);
  await (await openDatabase(file, { known: only(1) })).close();
  const before = schemaOf(file);
  // The copy's name is taken by a folder, which no rename replaces.
  mkdirSync(`${file}.before-${names[1]}/taken`, { recursive: true });
  await assert.rejects(openDatabase(file), (error) => {
    assert.ok(error instanceof OperatorError);
    assert.match(error.message, /^[^\n]*make room[^\n]*nothing was changed$/);
    return true;
  });
  assert.deepEqual(schemaOf(file), before);
  assert.deepEqual(
    readdirSync(dirname(file)).filter((name) => name.endsWith('.new')),
    [],
  );
});
