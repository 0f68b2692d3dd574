/** `berth migrate-to`: everything of an SQLite file is in PostgreSQL afterwards, or nothing is, however it ends. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import { readConfig } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { dataOf } from '../support/field-sets.ts';
import { runCommand } from '../support/command-line.ts';
import { hosted } from '../support/hosted.ts';
import { postgresOnly } from '../support/postgres.ts';
import { CHILD, fill, isEmpty, moving, STRANGE } from './moving.ts';

/** What one of the two has for itself. PostgreSQL keeps four tables that nodes before 0.3.0 write (029). */
const NOT_COPIED =
  /^(nodes|leftovers|unanswered_deletions|request_counts|daily_(uploads|storage|refusals)|directory_days|directory_trigrams.*|sqlite_.*)$/;

async function everything(db: Kysely<Tables>): Promise<object> {
  const tables = (await db.introspection.getTables()).map(({ name }) => name as keyof Tables);
  const content: Record<string, object[]> = {};
  for (const table of tables.filter((name) => !NOT_COPIED.test(name)).toSorted()) {
    const rows = await db.selectFrom(table).selectAll().execute();
    content[table] = rows
      .map((row) => (table === 'directories' ? { ...row, node: '' } : row))
      .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  return content;
}

async function contentOf(place: string): Promise<object> {
  const { db, close } = await openDatabase(place);
  try {
    return await everything(db);
  } finally {
    await close();
  }
}

async function indexesOf(url: string): Promise<string[]> {
  const { db, close } = await openDatabase(url);
  const { rows } = await sql<{ definition: string }>`
    select pg_get_indexdef(indexrelid) as definition from pg_index join pg_class on oid = indrelid
    where relnamespace = 'public'::regnamespace
    union all select conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace`.execute(db);
  await close();
  return rows.map(({ definition }) => definition).toSorted();
}

test(
  'every row, byte and number is in PostgreSQL; the settings name it and the old file is beside',
  postgresOnly,
  async () => {
    using it = moving();
    await fill(it);
    const before = await contentOf(it.place.config.database);
    const { status, stdout, stderr } = await it.migrate(it.to.url, '--json');
    assert.equal(stderr.includes('files: 11 of 11'), true, stderr);
    assert.equal(status, 0, stderr);

    assert.deepEqual(await contentOf(it.to.url), before);
    const { db, close } = await openDatabase(it.to.url);
    const nodes = await db.selectFrom('directories').select('node').distinct().execute();
    assert.deepEqual(nodes, [{ node: 'one' }]);
    const { id } = await db
      .insertInto('transfers')
      .values({ at: 1, event: 'removed', directory_id: 'd', account_id: 'a', username: 'u' } as never)
      .returning('id')
      .executeTakeFirstOrThrow();
    assert.equal(id, STRANGE.length + 1, 'a number was given out twice');
    await close();

    using plain = moving();
    await (await openDatabase(plain.to.url)).close();
    assert.deepEqual(await indexesOf(it.to.url), await indexesOf(plain.to.url), 'indexes or constraints differ');

    const said = JSON.parse(stdout) as { rows: Record<string, number>; settings: string; kept: string; node: string };
    assert.deepEqual([said.node, said.settings, said.rows['files']], ['one', it.settings, 11]);
    assert.equal(existsSync(said.kept), true);
    assert.equal(existsSync(it.place.config.databaseFile), false);
    const lines = readFileSync(it.settings, 'utf8').split('\n');
    assert.deepEqual(lines.slice(1, 4), [
      '#BERTH_DATABASE_URL=sqlite:/var/lib/berth/berth.db',
      `BERTH_DATABASE_URL="${it.to.url}"`,
      'BERTH_RATE_LIMIT=7',
    ]);
    assert.equal(statSync(it.settings).mode & 0o777, 0o640);
  },
);

test('after the migration the API gives the same answers to the same key', postgresOnly, async () => {
  using it = moving();
  const { id, key, before } = await (async () => {
    await using berth = await hosted(it.place);
    const directory = await berth.directory({ name: 'Acme', external_id: 'x' });
    const answer = await berth.send('GET', `/directories/${directory.id}`);
    return { id: directory.id, key: berth.tenant.key, before: dataOf(answer) };
  })();
  assert.equal((await it.migrate(it.to.url)).status, 0);
  const config = readConfig({ ...it.place.environment, BERTH_DATABASE_URL: it.to.url });
  await using berth = await hosted({ ...it.place, config });
  assert.deepEqual(dataOf(await berth.client.as(key)('GET', `/directories/${id}`)), before);
});

for (const [step, truth, counts] of [
  ['^lock table', 'SQLite counts, PostgreSQL is empty', 'sqlite'],
  ['^files: 11', 'SQLite counts, PostgreSQL is empty', 'sqlite'],
  ['^comparing', 'SQLite counts, PostgreSQL is empty', 'sqlite'],
  ['^commit', 'SQLite counts, PostgreSQL has a copy', 'sqlite'],
  ['^renamed .*env', 'PostgreSQL counts, the old file has its old name', 'postgres'],
  ['^renamed .*berth.db', 'PostgreSQL counts, the old file is beside', 'postgres'],
] as const) {
  test(`killed after ${step}: ${truth}; the same command finishes it`, postgresOnly, async () => {
    using it = moving();
    await fill(it);
    const before = await contentOf(it.place.config.database);
    const { environment, config } = it.place;
    const child = spawnSync(process.execPath, [CHILD, step, it.to.url, it.settings], {
      env: { ...process.env, ...environment },
      encoding: 'utf8',
    });
    assert.equal(child.signal, 'SIGKILL', `${child.stdout}${child.stderr}`);
    const isSet = readFileSync(it.settings, 'utf8').includes(it.to.url);
    assert.equal(isSet, counts === 'postgres');
    assert.deepEqual(await contentOf(isSet ? it.to.url : config.databaseFile), before);
    if (truth.includes('is empty')) assert.equal(await isEmpty(it.to.url), true);

    const settings = isSet ? { BERTH_DATABASE_URL: it.to.url } : {};
    const again = await runCommand({ ...environment, ...settings }, 'migrate-to', '--settings', it.settings, it.to.url);
    assert.equal(again.status, 0, again.stderr);
    assert.deepEqual(await contentOf(it.to.url), before);
    assert.equal(existsSync(config.databaseFile), false);
    assert.equal(readdirSync(config.stateDir).filter((name) => name.includes('.migrated-')).length, 1);
    assert.equal(readFileSync(it.settings, 'utf8').split(it.to.url).length, 2);
  });
}

test('without a settings file it says what to set', postgresOnly, async () => {
  using it = moving();
  await fill(it);
  const { stdout } = await runCommand(
    it.place.environment,
    'migrate-to',
    '--settings',
    '/nowhere/berth.env',
    it.to.url,
  );
  assert.match(stdout, /There is no \/nowhere\/berth.env: set BERTH_DATABASE_URL/);
});
