/** A start with a PostgreSQL that cannot be used ends with one line that says why; sshd and its users go on meanwhile. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import type { Migration } from 'kysely/migration';
import type { Migrations } from '../../src/foundation/db/migrate.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { runCommand } from '../support/command-line.ts';
import { freshDatabase, GUARDED, postgresOnly, psql, urlOf } from '../support/postgres.ts';
import { ROOT, type Scratch, scratch } from '../support/scratch.ts';
import { freePort } from '../support/free-port.ts';
import { directory, hostOf } from '../support/sftp-user.ts';
import { copyHostKeys } from '../support/sshd.ts';

/** With host keys, which take `prepare` longer than all else, and a port for sshd, which it has sshd check. */
async function machine(): Promise<Scratch> {
  const place = scratch({ BERTH_NODE: 'one', BERTH_SFTP_PORT: String(await freePort()) });
  await copyHostKeys(ROOT, pathsOf(place.config).hostKeys);
  return place;
}

/** Asserts that `serve` ends so, and that `prepare`, which comes before sshd, does not. */
async function refused(place: Scratch, what: RegExp, url = place.config.database): Promise<void> {
  const environment = { ...place.environment, BERTH_DATABASE_URL: url };
  const { status, stderr, stdout } = await runCommand(environment, 'serve');
  const lines = `${stdout}${stderr}`.trim().split('\n');
  assert.deepEqual([status, lines.length], [1, 1], stderr);
  assert.match(lines[0] ?? '', what);
  const prepared = await runCommand(environment, 'prepare');
  assert.equal(prepared.status, 0, prepared.stderr);
  assert.doesNotMatch(stderr + prepared.stderr + prepared.stdout, /hunter2/);
}

test('a database that is missing, a wrong password, or none', postgresOnly, async (t) => {
  using place = await machine();
  const there = place.config.database;
  psql(there, `create role ${GUARDED} login password 'right'`);
  const as = (user: string): string => there.replace('//postgres@', `//${user}@`);
  await t.test('missing', () =>
    refused(
      place,
      /cannot be used: database "nowhere" does not exist \(create it there: create database/,
      urlOf('nowhere'),
    ),
  );
  await t.test('a wrong password', () =>
    refused(place, /the user or the password in the URL is wrong/, as(`${GUARDED}:hunter2`)),
  );
  await t.test('no password', () => refused(place, /requires a password, and the URL has none/, as(GUARDED)));
  await t.test("a database that is another user's", () =>
    refused(place, /the user has to own the database/, as(`${GUARDED}:right`)),
  );
  psql(there, `drop role ${GUARDED}`);
});

test('a database of a newer berth, which stays as it is', postgresOnly, async () => {
  using place = await machine();
  psql(place.config.database, "insert into kysely_migration values ('999-x', '')");
  await refused(place, /was written by a newer berth \(migration 999-x\): install that version, or restore a backup/);
  assert.equal(psql(place.config.database, 'select count(*) from kysely_migration where name > $$9$$').trim(), '1');
});

test('several servers, and a database in another encoding', postgresOnly, async () => {
  using place = await machine();
  const { status, stderr } = await runCommand(
    { ...place.environment, BERTH_DATABASE_URL: 'postgres://u:hunter2@a,b/x' },
    'serve',
  );
  assert.equal(status, 1);
  assert.match(stderr, /^berth: configuration: BERTH_DATABASE_URL must name one PostgreSQL server, a virtual address/);
  psql(urlOf('postgres'), "create database odd template template0 encoding 'LATIN1' locale 'C'");
  await refused(place, /is encoded in LATIN1: create one with encoding UTF8$/, urlOf('odd'));
  // The server may still be about to end the connection.
  psql(urlOf('postgres'), 'drop database odd with (force)');
});

test('a database that knows nothing of the users on this machine, who keep what they have', postgresOnly, async () => {
  using place = await machine();
  mkdirSync(place.config.stateDir, { recursive: true });
  const paths = pathsOf(place.config);
  const user = directory();
  await using host = hostOf(paths);
  await host.apply(user);
  await refused(
    place,
    /has no directory of the node one, but .*userdb holds SFTP users.*repair BERTH_DATABASE_URL or BERTH_NODE/,
  );
  assert.ok(host.isApplied(user));
});

/** Opens an empty database four times at once, and returns what `query` answers then. */
async function openedAtOnce(query: string, known?: Migrations): Promise<string> {
  const empty = freshDatabase('template0');
  try {
    const opening = [1, 2, 3, 4].map(() => openDatabase(empty.url, { ...(known && { known }) }));
    for (const result of await Promise.allSettled(opening)) {
      if (result.status === 'fulfilled') await result.value.close();
    }
    await Promise.all(opening);
    return psql(empty.url, query).trim();
  } finally {
    empty.drop();
  }
}

test('nodes that start at once with an empty database make its schema once', postgresOnly, async () => {
  assert.equal(await openedAtOnce('select count(*) from installation'), '1');
});

const COLUMNS = 1000;

/** A table so wide that looking at its columns takes long, and migrations that drop one column each. */
const DROPPING: Migrations = {
  '001-wide': {
    async up({ schema }) {
      let wide = schema.createTable('wide');
      for (let column = 0; column < COLUMNS; column += 1) wide = wide.addColumn(`c${column}`, 'integer');
      await wide.execute();
    },
  },
  ...Object.fromEntries(
    Array.from({ length: 20 }, (_, at): [string, Migration] => [
      `${at + 100}-drop`,
      {
        up: ({ schema }) =>
          schema
            .alterTable('wide')
            .dropColumn(`c${COLUMNS - 1 - at}`)
            .execute(),
      },
    ]),
  ),
};

test('a node that starts while another drops columns waits until it has', postgresOnly, async () => {
  assert.equal(await openedAtOnce('select count(*) from kysely_migration', DROPPING), '21');
});
