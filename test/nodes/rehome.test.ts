/** The transaction that gives a directory another home, however many files it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kysely } from 'kysely';
import { BerthPostgresDialect, poolOf } from '../../src/foundation/db/postgres.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { rehome } from '../../src/operating/nodes/move/rehome.ts';
import { until } from '../support/poll.ts';
import { postgresOnly, psql } from '../support/postgres.ts';
import { nodesPlace } from './nodes-place.ts';

/** A millisecond each: together they take longer than a statement may. */
const FILES = 6000;
const TIMEOUT_MS = 4000;

test('no statement of it takes longer the more files there are', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const { id } = await place.directoryOn(place.node('a'), place.node('a'));
  const marks = 'select count(*) from unapplied';
  await until('its create is done with', () => Number(psql(place.url, marks)) === 0);
  psql(
    place.url,
    `insert into files (id, directory_id, path, size_bytes, state, uploaded_at, inode, mtime, source)
     select gen_random_uuid(), '${id}', convert_to(i::text, 'UTF8'), 1, 'uploaded', i / 7 - 100, i, i, 'log' from generate_series(1, ${FILES}) i;
     create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.001); return new; end';
     create trigger slow before update on files for each row execute function slow()`,
  );
  const pool = poolOf(place.url, { max: 1, name: 'test', timeoutMs: TIMEOUT_MS });
  const db = new Kysely<Tables>({ dialect: new BerthPostgresDialect(pool) });
  try {
    const by = { keyId: 'operator:root', requestId: 'test', route: 'test' };
    assert.equal((await rehome(db, { id, from: 'a', to: 'b', by }, 1)).node, 'b');
    const forgotten = `select count(*) from files where directory_id = '${id}' and inode = -1 - mtime`;
    assert.equal(Number(psql(place.url, forgotten)), FILES);
  } finally {
    await db.destroy();
  }
});
