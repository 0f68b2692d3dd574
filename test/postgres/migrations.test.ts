/** Migrations of PostgreSQL with data: from the schema of 0.1.0 and the one before the present, in a long run from every one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { migrations } from '../../src/foundation/db/migrations/index.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { longOnly } from '../support/long.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';

type Row = Readonly<Record<string, unknown>>;

const names = Object.keys(migrations);
const only = (count: number) => Object.fromEntries(Object.entries(migrations).slice(0, count));

const TABLES = `select coalesce(json_agg(json_build_object('table', table_name, 'columns', columns)), '[]') from (
  select table_name, json_agg(json_build_object('name', column_name, 'type', data_type)) as columns
  from information_schema.columns join information_schema.tables using (table_schema, table_name)
  where table_schema = 'public' and table_type = 'BASE TABLE' and table_name not like 'kysely%'
    and is_generated = 'NEVER' group by table_name) t`;

const SCHEMA = `select string_agg(line, E'\\n' order by line) from (
  select concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) as line
  from information_schema.columns where table_schema = 'public'
  union all select indexdef from pg_indexes where schemaname = 'public'
  union all select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint
  where connamespace = 'public'::regnamespace and contype <> 'n') s`;

/** Values that satisfy each table's checks; every other column is filled by its type. */
const VALUES: Readonly<Record<string, unknown>> = {
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

interface Table {
  readonly table: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

const tablesOf = (url: string) => JSON.parse(psql(url, TABLES)) as Table[];

function rowsOf(url: string, table: string): Row[] {
  return JSON.parse(psql(url, `select coalesce(json_agg(t), '[]') from "${table}" t`)) as Row[];
}

/** One row of each table. */
function fill(url: string): Map<string, Row[]> {
  const tables = tablesOf(url);
  const inserts = tables.map(({ table, columns }) => {
    const values = columns.map(({ name, type }) => {
      // An account and a directory never have the same id.
      if (table === 'directory_days' && name === 'directory_id') return `'directory'`;
      if (name in VALUES) return `'${String(VALUES[name])}'`;
      if (/int|numeric/.test(type)) return type === 'bigint' ? '1795000000000001' : '1';
      if (type === 'boolean') return 'true';
      if (/json/.test(type)) return `'{}'`;
      return type === 'bytea' ? `'\\xff01'` : `'${name}'`;
    });
    return `insert into "${table}" (${columns.map(({ name }) => `"${name}"`).join(', ')}) overriding system value values (${values.join(', ')});`;
  });
  psql(url, `set session_replication_role = replica; ${inserts.join('\n')}`);
  return new Map(tables.map(({ table }) => [table, rowsOf(url, table)]));
}

/** The last of 0.1.0, and the one before the present. */
const USUAL = new Set(['007-quotas-of-nodes', names.at(-2)]);

test(
  'a database with data, of an earlier schema, becomes the present one, and loses nothing',
  postgresOnly,
  async (t) => {
    const present = freshDatabase();
    t.after(() => present.drop());
    const schema = psql(present.url, SCHEMA);
    const remaining = new Set(tablesOf(present.url).map(({ table }) => table));
    for (const [index, name] of names.slice(0, -1).entries()) {
      await t.test(name, USUAL.has(name) ? {} : longOnly, async (each) => {
        const { url, drop } = freshDatabase('template0');
        each.after(() => drop());
        await (await openDatabase(url, { known: only(index + 1) })).close();
        const before = fill(url);
        await (await openDatabase(url)).close();
        for (const [table, rows] of before) {
          if (!remaining.has(table)) continue;
          const after = rowsOf(url, table);
          const columns = Object.keys(after[0] ?? {});
          const kept = rows.map((row) =>
            Object.fromEntries(Object.entries(row).filter(([column]) => columns.includes(column))),
          );
          assert.deepEqual(
            after.map((row, i) => ({ ...row, ...kept[i] })),
            after,
            table,
          );
          assert.equal(after.length, rows.length, table);
        }
        assert.equal(psql(url, SCHEMA), schema);
      });
    }
  },
);

/** The columns of 0.1.0, and of the schema before the totals by day were one table. */
const OLDER = ['007-quotas-of-nodes', '026-failed-events'];

interface Column {
  readonly id: string;
  readonly table: string;
  readonly isRequired: boolean;
}

const COLUMNS = `select coalesce(json_agg(json_build_object('id', table_name || '.' || column_name, 'table', table_name,
    'isRequired', is_nullable = 'NO' and column_default is null and is_identity = 'NO' and is_generated = 'NEVER')), '[]')
  from information_schema.columns where table_schema = 'public' and table_name not like 'kysely%'`;

const columnsOf = (url: string) => JSON.parse(psql(url, COLUMNS)) as Column[];

test('nodes with an older berth can write to all of their tables after the migration', postgresOnly, async (t) => {
  for (const last of OLDER) {
    const { url, drop } = freshDatabase('template0');
    t.after(() => drop());
    await (await openDatabase(url, { known: only(names.indexOf(last) + 1) })).close();
    const before = columnsOf(url);
    await (await openDatabase(url)).close();
    const after = columnsOf(url);
    const gone = before.filter(({ id }) => !after.some((each) => each.id === id));
    const tables = new Set(before.map(({ table }) => table));
    const required = after.filter(
      ({ id, table, isRequired }) => isRequired && tables.has(table) && !before.some((each) => each.id === id),
    );
    assert.deepEqual([gone, required], [[], []], last);
  }
});
