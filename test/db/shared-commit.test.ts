/** Writers that share a commit: what one of them does wrong is its own affair, and a commit that fails is everybody's. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { Kysely, sql, type Transaction } from 'kysely';
import { openDatabase } from '../../src/db/open.ts';
import type { Tables } from '../../src/db/schema.ts';
import { sharedCommits, type Write } from '../../src/db/shared-commit.ts';
import { BerthSqliteDialect } from '../../src/db/sqlite.ts';
import { smallDisk } from '../faults/small-disk.ts';
import { until } from '../support/poll.ts';
import { scratch, type Scratch } from '../support/scratch.ts';

interface Opened extends AsyncDisposable {
  readonly write: Write;
  /** How many transactions were begun and committed since the last call. */
  counts(): { begun: number; committed: number };
  /** The ids of all rows, as another connection sees them. */
  ids(): string[];
}

/** A real database, whose statements are counted. */
async function open(place: Scratch): Promise<Opened> {
  mkdirSync(place.config.stateDir, { recursive: true });
  const file = join(place.config.stateDir, 'berth.db');
  await (await openDatabase(file)).close(); // the schema is there
  const sqlite = new Sqlite(file);
  sqlite.pragma('journal_mode = wal');
  sqlite.pragma('synchronous = full');
  sqlite.pragma('foreign_keys = on');
  let statements: string[] = [];
  const dialect = new BerthSqliteDialect(sqlite);
  const db = new Kysely<Tables>({ dialect, log: ({ query }) => void statements.push(query.sql) });
  const reader = new Sqlite(file, { readonly: true });
  const ids = reader.prepare<[], string>('select directory_id from unapplied order by directory_id').pluck();
  return {
    write: sharedCommits(db),
    counts() {
      const count = (text: string): number => statements.filter((statement) => statement === text).length;
      const counted = { begun: count('begin immediate'), committed: count('commit') };
      statements = [];
      return counted;
    },
    ids: () => ids.all(),
    async [Symbol.asyncDispose]() {
      reader.close();
      await db.destroy();
    },
  };
}

const insert = (id: string) => async (tx: Transaction<Tables>) => {
  await tx.insertInto('unapplied').values({ directory_id: id }).execute();
  return id;
};

/** Breaks the transaction in a way that only its commit notices: a row whose directory does not exist. */
async function breakCommit(tx: Transaction<Tables>): Promise<void> {
  await sql`pragma defer_foreign_keys = on`.execute(tx);
  const file = { directory_id: 'none', path: Buffer.from('f'), size_bytes: 0, uploaded_at: 0, inode: 0, mtime: 0 };
  await tx
    .insertInto('files')
    .values({ id: 'f', state: 'uploaded', source: 'log', session_pid: null, ...file })
    .execute();
}

test('writers of one turn share a commit and get what they returned; one alone has a commit too', async () => {
  using place = scratch();
  await using opened = await open(place);
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map((id) => opened.write(insert(id)))), ['a', 'b', 'c']);
  assert.deepEqual(opened.counts(), { begun: 1, committed: 1 });
  assert.equal(await opened.write(insert('d')), 'd');
  assert.deepEqual(opened.counts(), { begun: 1, committed: 1 });
  assert.deepEqual(opened.ids(), ['a', 'b', 'c', 'd']);
});

test('a writer is answered when its row can be seen by others, and not before', async () => {
  using place = scratch();
  await using opened = await open(place);
  const seen: string[][] = [];
  const both = ['a', 'b'].map((id) =>
    opened
      .write(async (tx) => {
        await insert(id)(tx);
        seen.push(opened.ids());
      })
      .then(() => seen.push(opened.ids())),
  );
  await Promise.all(both);
  assert.deepEqual(seen, [[], [], ['a', 'b'], ['a', 'b']]);
});

test('more writers than fit in one commit are all served', async () => {
  using place = scratch();
  await using opened = await open(place);
  const names = Array.from({ length: 120 }, (_, index) => String(index).padStart(3, '0'));
  await Promise.all(names.map((name) => opened.write(insert(name))));
  assert.deepEqual(opened.counts(), { begun: 3, committed: 3 });
  assert.deepEqual(opened.ids(), names);
});

test('a writer that throws gets its own error and takes back only its own part', async () => {
  using place = scratch();
  await using opened = await open(place);
  const wrong = new Error('wrong');
  const results = await Promise.allSettled([
    opened.write(insert('a')),
    opened.write(async (tx) => {
      await insert('b')(tx);
      throw wrong;
    }),
    opened.write(insert('a')), // SQLite's refusal: there is one
    opened.write(insert('c')),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
  );
  assert.ok(results[1]?.status === 'rejected' && results[1].reason === wrong);
  assert.ok(results[2]?.status === 'rejected' && /UNIQUE/.test(String(results[2].reason)));
  assert.deepEqual(opened.ids(), ['a', 'c']);
  assert.deepEqual(opened.counts(), { begun: 1, committed: 1 });
});

test('one alone that throws leaves nothing, and the next is served', async () => {
  using place = scratch();
  await using opened = await open(place);
  const wrong = opened.write(async (tx) => {
    await insert('a')(tx);
    throw new Error('wrong');
  });
  await assert.rejects(wrong, /wrong/);
  assert.deepEqual(opened.counts(), { begun: 1, committed: 0 });
  await opened.write(insert('b'));
  assert.deepEqual(opened.ids(), ['b']);
});

test('a commit that fails rejects every writer of it and leaves nothing; the next commit works', async () => {
  using place = scratch();
  await using opened = await open(place);
  for (const works of [[insert('a'), breakCommit, insert('b')], [breakCommit]]) {
    const results = await Promise.allSettled(works.map((work) => opened.write<unknown>(work)));
    for (const result of results) {
      assert.ok(result.status === 'rejected' && /FOREIGN KEY/.test(String(result.reason)), result.status);
    }
    assert.deepEqual(opened.ids(), []);
  }
  await opened.write(insert('c'));
  assert.deepEqual(opened.ids(), ['c']);
});

test('a full disk rejects every writer and leaves nothing; with room again, they are served', async () => {
  using place = scratch();
  using disk = smallDisk(place.config.stateDir, 'size=8m');
  await using opened = await open(place);
  await opened.write(insert('before'));
  disk.fill();
  // More than the log has left of its last page on the disk.
  const long = 'x'.repeat(20_000);
  const results = await Promise.allSettled(['a', 'b', 'c'].map((id) => opened.write(insert(`${id}${long}`))));
  for (const result of results) {
    assert.ok(result.status === 'rejected' && /full/.test(String(result.reason)), result.status);
  }
  assert.deepEqual(opened.ids(), ['before']);
  disk.free();
  await Promise.all(['a', 'b'].map((id) => opened.write(insert(id))));
  assert.deepEqual(opened.ids(), ['a', 'b', 'before']);
});

test('what is put off is committed together, a moment later; a failure drops all of it and nothing else', async () => {
  using place = scratch();
  await using opened = await open(place);
  for (const id of ['a', 'b', 'c']) opened.write.later(insert(id));
  await until('the rows are there', async () => opened.ids().length === 3);
  assert.deepEqual(opened.counts(), { begun: 1, committed: 1 });
  for (const id of ['d', 'a']) opened.write.later(insert(id));
  await until('it was tried', async () => opened.counts().begun === 1);
  await opened.write(insert('e'));
  assert.deepEqual(opened.ids(), ['a', 'b', 'c', 'e']);
});
