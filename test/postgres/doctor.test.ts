/**
 * What `berth doctor` and the metrics say about a healthy and a broken PostgreSQL, and about the machines that share it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Config } from '../../src/foundation/base/config.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { runDoctor } from '../../src/operating/doctor/run.ts';
import { nodesPlace } from '../nodes/nodes-place.ts';
import { freshDatabase, postgresOnly, psql, urlOf } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';

interface Line {
  readonly check: string;
  readonly verdict: string;
  readonly text: string;
}

/** Its lines of these checks. */
async function ask(config: Config, ...checks: readonly string[]): Promise<string[]> {
  let text = '';
  const stop = new AbortController().signal;
  const print = (line: string): void => void (text += line);
  await runDoctor({ config: () => config, environment: {}, clock: systemClock(), json: true, print, stop });
  const lines = (JSON.parse(text) as Line[]).filter(({ check }) => checks.includes(check));
  return lines.map(({ check, verdict, text: said }) => `${verdict} ${check}: ${said}`);
}

const nameOf = (url: string): string => /@\/(\w+)/.exec(url)?.[1] ?? '';

test('the database is well, or the line says what is wrong with it, without the password', postgresOnly, async (t) => {
  using place = scratch();
  const { config } = place;
  const database = (url = config.database): Promise<string[]> => ask({ ...config, database: url }, 'database');
  const [well = ''] = await database();
  assert.match(well, /^ok database: postgres:\/\/.* answers in \d+ ms: PostgreSQL \d+\.\d+.*, of this version$/);

  await t.test('the database of a newer berth', async () => {
    psql(config.database, "insert into kysely_migration values ('999-x', '')");
    assert.match((await database()).join(), /^fail database: .* was written by a newer berth \(999-x\)$/);
    psql(config.database, "delete from kysely_migration where name = '999-x'");
  });
  await t.test('one that forgets', async () => {
    psql(config.database, `alter database ${nameOf(config.database)} set synchronous_commit = off`);
    assert.match((await database()).join(), /^warn database: .* may lose confirmed changes/);
    psql(config.database, `alter database ${nameOf(config.database)} reset synchronous_commit`);
  });
  await t.test('empty', async () => {
    const empty = freshDatabase('template0');
    assert.match((await database(empty.url)).join(), /^warn database: .* still has to be migrated/);
    empty.drop();
  });
  await t.test('missing', async () => {
    assert.match((await database(urlOf('nowhere'))).join(), /^fail database: .*cannot be used: .*create database NAME/);
  });
  await t.test('away', async () => {
    const [line = ''] = await database('postgres://u:hunter2@127.0.0.1:1/x');
    assert.match(
      line,
      /^fail database: the database postgres:\/\/u@127\.0\.0\.1:1\/x cannot be reached: .*ECONNREFUSED/,
    );
  });
});

test('a node that is away is named, with what waits for it', postgresOnly, async () => {
  await using place = await nodesPlace('one', 'two');
  const [one, two] = [place.node('one'), place.node('two')];
  const { id } = await place.directoryOn(two, one);
  const lines = await ask(one.berth.config, 'nodes', 'directories', 'users');
  assert.equal(lines[0], 'ok nodes: this is the node one; one is live, two is live');
  assert.deepEqual(
    lines.filter((line) => !line.startsWith('ok ')),
    [],
    "the other's directories are none of this machine's affair",
  );
  await two.berth.stop();
  psql(place.url, `update directories set version = version + 1 where id = '${id}'`);
  psql(
    place.url,
    `insert into unapplied (directory_id, version) select id, version from directories where id = '${id}'
     on conflict (directory_id) do update set version = excluded.version`,
  );
  const [line = ''] = await ask(one.berth.config, 'nodes');
  assert.match(
    line,
    /^fail nodes: the node two is away: uploads to its \d+ director\w+ are not announced, and 1 change must wait for it$/,
  );
});
