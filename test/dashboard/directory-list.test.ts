/** The list of directories against a model: searched, in each order, by pages in both directions, while it changes. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { UNLIMITED } from '../../src/rules/accounts/actor.ts';
import { fc } from '../support/fast-check.ts';
import { sql } from 'kysely';
import { listingIn } from '../../src/interfaces/dashboard/directories-view.ts';
import { directoryPage, FEW, type Listing, type Order, ORDERS, PAGE } from '../../src/rules/directories/view.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { type ListedRow, directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { scratch } from '../support/scratch.ts';

const KEYS = Object.keys(ORDERS) as Order[];

async function withDatabase(work: (database: Database) => Promise<void>): Promise<void> {
  using place = scratch();
  mkdirSync(place.config.stateDir, { recursive: true });
  const database = await openDatabase(place.config.database);
  await work(database);
  await database.close();
}

/** As SQLite's `lower` does it. */
const lower = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

function keyOf(row: ListedRow, order: Order): string | number {
  const searched = [row.name, row.slug, row.sftp_username, row.external_id ?? ''].join('\n');
  return { name: lower(searched), storage: row.storage_bytes, upload: row.last_upload_at, created: row.inserted_at }[
    order
  ];
}

/** Text by its bytes, as SQLite compares it. */
function compare(a: string | number, b: string | number): number {
  return typeof a === 'number' ? a - Number(b) : Buffer.compare(Buffer.from(a), Buffer.from(String(b)));
}

function expected(rows: readonly ListedRow[], { search, order, isReversed }: Listing): string[] {
  const sign = ORDERS[order].isDown === isReversed ? 1 : -1;
  return rows
    .filter((row) => String(keyOf(row, 'name')).includes(lower(search)))
    .toSorted((a, b) => sign * (compare(keyOf(a, order), keyOf(b, order)) || compare(a.id, b.id)))
    .map(({ id }) => id);
}

const few = (most: number) => fc.integer({ min: 0, max: most });
const row = fc.record({
  name: fc.constantFrom('Acme', 'acme', 'ACME 2', 'Zürich', '%_', 'a\\b[*?]', 'Ωmega', 'x'),
  external_id: fc.constantFrom(null, 'order-1', 'ORDER-2', '50%'),
  storage_bytes: few(3),
  inserted_at: few(5),
  last_upload_at: few(2),
});
const listing = fc.record({
  search: fc.constantFrom(
    '',
    '',
    'acme',
    'Order',
    '%',
    '_',
    '\\',
    '*',
    '[*?]',
    '[a-z]',
    '?',
    'Zürich',
    'nothing at all',
  ),
  order: fc.constantFrom(...KEYS),
  isReversed: fc.boolean(),
});
const scene = fc.record({
  rows: fc.array(row, { minLength: 0, maxLength: 4 * PAGE, size: 'max' }),
  listing,
  /** What comes and goes between two pages. */
  coming: fc.array(row, { maxLength: 5 }),
  going: fc.array(fc.nat(4 * PAGE), { maxLength: 5 }),
});

test('pages one after the other are the whole list in its order, forward and backward', async () => {
  await withDatabase(async ({ db, reads }) => {
    const walk = fc.asyncProperty(scene, async ({ rows: given, listing: wanted }) => {
      const accountId = await newAccount(db);
      const rows = given.map(directoryRow);
      await insertDirectories(db, accountId, rows);
      const all = expected(rows, wanted);
      const seen: string[] = [];
      let page = await directoryPage(reads, { accountId, scope: UNLIMITED }, wanted);
      assert.equal(page.previous, undefined);
      for (;;) {
        seen.push(...page.rows.map(({ id }) => id));
        if (!page.next) break;
        page = await directoryPage(reads, { accountId, scope: UNLIMITED }, { ...wanted, after: page.next });
      }
      assert.deepEqual(seen, all);
      const back = page.rows.map(({ id }) => id);
      while (page.previous) {
        page = await directoryPage(reads, { accountId, scope: UNLIMITED }, { ...wanted, before: page.previous });
        if (page.previous) back.unshift(...page.rows.map(({ id }) => id));
      }
      // The first page is whole, though it may overlap with the one after it.
      const first = page.rows.map(({ id }) => id);
      assert.deepEqual(first, all.slice(0, PAGE));
      assert.deepEqual([...new Set([...first, ...back])], all);
    });
    await fc.assert(walk, { numRuns: 40 });
  });
});

test('a directory that exists throughout is on exactly one page, while others come and go', async () => {
  await withDatabase(async ({ db, reads }) => {
    const walk = fc.asyncProperty(scene, async ({ rows: given, listing: wanted, coming, going }) => {
      const accountId = await newAccount(db);
      const rows = given.map(directoryRow);
      await insertDirectories(db, accountId, rows);
      const gone = new Set<string>();
      const seen: string[] = [];
      for (let after: Listing['after']; ;) {
        const page = await directoryPage(reads, { accountId, scope: UNLIMITED }, { ...wanted, after });
        seen.push(...page.rows.map(({ id }) => id));
        // The last one shown goes, too: the next page begins where it was.
        const leaving = [...going.map((index) => rows[index]?.id), page.rows.at(-1)?.id].filter(
          (id) => id !== undefined,
        );
        for (const id of leaving) {
          gone.add(id);
          await db.deleteFrom('directories').where('id', '=', id).execute();
        }
        await insertDirectories(db, accountId, coming.map(directoryRow));
        if (!page.next) break;
        after = page.next;
      }
      const stayed = expected(rows, wanted).filter((id) => !gone.has(id));
      assert.deepEqual(
        seen.filter((id) => stayed.includes(id)),
        stayed,
      );
      assert.equal(new Set(seen).size, seen.length);
    });
    await fc.assert(walk, { numRuns: 40 });
  });
});

test('a search finds the whole id, any part of name, slug, username and external id, and other letters by the slug', async () => {
  await withDatabase(async ({ db, reads }) => {
    const accountId = await newAccount(db);
    const rows = [
      directoryRow({ name: 'Größe <b>', external_id: 'Kunde/42', sftp_username: 'user-aaa' }),
      directoryRow({ name: '日本', sftp_username: 'user-bbb' }),
      directoryRow({ name: 'Plain', slug: 'from-before', sftp_username: 'user-ccc' }),
    ];
    await insertDirectories(db, accountId, rows);
    await insertDirectories(db, await newAccount(db), [
      directoryRow({ name: 'Größe of others', sftp_username: 'user-ddd' }),
    ]);
    const find = async (search: string) => {
      const found = await directoryPage(
        reads,
        { accountId, scope: UNLIMITED },
        { search, order: 'name', isReversed: false },
      );
      return found.rows.map(({ sftp_username }) => sftp_username.slice(-3)).join(' ');
    };
    const [big, japan] = rows;
    assert.deepEqual(
      await Promise.all(
        ['GRÖSSE', 'größe', 'kunde/4', '日', 'OM-BEF', 'ER-B', '<B>', big?.id ?? '', japan?.id.slice(1) ?? ''].map(
          find,
        ),
      ),
      ['aaa', 'aaa', 'aaa', 'bbb', 'ccc', 'bbb', 'aaa', 'aaa', ''],
    );
  });
});

test(
  'each order and each direction walks an index, sorts nothing, and a search looks into the index alone',
  sqliteOnly,
  async () => {
    await withDatabase(async ({ db, reads }) => {
      const accountId = await newAccount(db);
      const key = { created: 1, name: 'a', storage: 1, upload: 1 };
      await insertDirectories(
        db,
        accountId,
        Array.from({ length: FEW + 1 }, (_, n) => directoryRow({ name: `Acme ${n}` })),
      );
      for (const order of KEYS)
        for (const isReversed of [false, true])
          for (const search of ['', 'acme'])
            for (const side of ['after', 'before'] as const) {
              const at = { [side]: { key: key[order], id: 'x' } };
              const wanted: Listing = { search, order, isReversed, ...at };
              const plans = await plansOf(reads, (watched) =>
                directoryPage(watched, { accountId, scope: UNLIMITED }, wanted),
              );
              const plan = plans[search === '' ? 0 : 1] ?? [];
              assert.deepEqual(plan.length, 1, plan.join('; '));
              assert.match(
                plan.join(),
                /^SEARCH directories USING INDEX directories_listed_by_(\w+) \(account_id=\? AND /,
              );
              assert.ok(plan.join().includes(`listed_by_${order} `), plan.join());
            }
    });
  },
);

test('a search that finds few looks at those alone, wherever else the text may be', sqliteOnly, async () => {
  await withDatabase(async ({ db, reads }) => {
    const accountId = await newAccount(db);
    await insertDirectories(db, accountId, [directoryRow({ name: 'Acme' }), directoryRow({ name: 'me' })]);
    const wanted = (search: string): Listing => ({ search, order: 'name', isReversed: false });
    const find = (search: string) => directoryPage(reads, { accountId, scope: UNLIMITED }, wanted(search));
    for (const search of ['acme', 'nobody', '"*?[', 'Größe', 'é\n"\0'.repeat(70)]) {
      const plans = await plansOf(reads, (watched) =>
        directoryPage(watched, { accountId, scope: UNLIMITED }, wanted(search)),
      );
      assert.match(plans[0]?.join('\n') ?? '', /SCAN directory_trigrams VIRTUAL TABLE INDEX 0:M/);
      assert.match(plans[1]?.join('\n') ?? '', /^SEARCH directories USING INDEX \S+ \(uid=\?\)/);
    }
    assert.equal((await find('me')).rows.length, 2, 'two letters are sought in all of them');
    await db.updateTable('directories').set({ name: 'Globex' }).where('name', '=', 'Acme').execute();
    const slugs = async (search: string) => (await find(search)).rows.map(({ name }) => name);
    assert.deepEqual(await slugs('globex'), ['Globex']);
    await db.updateTable('directories').set({ external_id: 'order-9' }).where('name', '=', 'me').execute();
    assert.deepEqual([await slugs('order-9'), await slugs('der-1')], [['me'], []]);
    await db.deleteFrom('directories').where('name', '=', 'me').execute();
    assert.deepEqual(await slugs('order-9'), []);
    await sql`insert into directory_trigrams (directory_trigrams, rank) values ('integrity-check', 1)`.execute(db);
  });
});

test('an invalid place in a list is ignored: PostgreSQL compares no text with a number', async () => {
  await withDatabase(async ({ db, reads }) => {
    const accountId = await newAccount(db);
    const only = directoryRow({ name: 'Acme' });
    await insertDirectories(db, accountId, [only]);
    const odd = ['[1.5,"x"]', '[1e400,"x"]', '[1,2]', '[null,"x"]', '{}', '[1', '[]'];
    const cases = KEYS.flatMap((sort) =>
      [...odd, sort === 'name' ? '[1,"x"]' : '["x","x"]'].map((text) => [sort, text]),
    );
    for (const [sort = '', text = ''] of cases) {
      const after = Buffer.from(text).toString('base64url');
      const { rows } = await directoryPage(reads, { accountId, scope: UNLIMITED }, listingIn({ sort, after }));
      assert.deepEqual(
        rows.map(({ id }) => id),
        [only.id],
        `${sort} ${text}`,
      );
    }
  });
});
