/** What the Files page reads: folders and searches, page by page, by the index. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompiledQuery } from 'kysely';
import { type ListedEntry, folderPage, type Page } from '../../src/arrivals/files/folders.ts';
import { searchPage } from '../../src/arrivals/files/search.ts';
import { displayName } from '../../src/arrivals/uploads/file-path.ts';
import { sharedHosted } from '../support/hosted.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { randomOf } from '../support/random-of.ts';
import { recordFiles } from '../support/record-files.ts';

const shared = sharedHosted();

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Paths of few different bytes, those around a slash among them, so that names begin alike and folders lie between. */
function randomPaths(seed: number, count: number): Buffer[] {
  const fraction = randomOf(seed);
  const random = (below: number): number => (fraction() * 2 ** 32) % below;
  const alphabet = [0x01, 0x2d, 0x2e, 0x30, 0x61, 0xc3, 0xa9, 0xff];
  const name = () => Buffer.from(Array.from({ length: 1 + random(3) }, () => alphabet[random(alphabet.length)] ?? 0));
  const found = new Map<string, Buffer>();
  while (found.size < count) {
    const path = Buffer.from(
      Array.from({ length: 1 + random(4) }, () => name().toString('latin1')).join('/'),
      'latin1',
    );
    found.set(path.toString('latin1'), path);
  }
  const all = [...found.keys()];
  // Nothing is a file and a folder.
  return [...found.values()].filter((path) => !all.some((one) => one.startsWith(`${path.toString('latin1')}/`)));
}

async function allOf<T>(read: (from: Buffer) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = [];
  for (let from: Buffer | undefined = Buffer.alloc(0); from;) {
    const page: Page<T> = await read(from);
    found.push(...page.entries);
    from = page.next;
  }
  return found;
}

const nameOf = (entry: ListedEntry): string =>
  'folder' in entry ? `${entry.folder.toString('latin1')}/` : entry.file.path.toString('latin1');

test('all pages of a folder, and of a search, have exactly what is there, each once and in order', async () => {
  const api = await shared();
  const { reads } = api.database;
  for (let seed = 1; seed <= 12; seed += 1) {
    const { id } = await api.directory();
    const paths = randomPaths(seed, 150);
    await recordFiles(api.database, id, paths);
    const texts = paths.map((path) => path.toString('latin1'));
    const folders = new Set([
      '',
      ...texts.flatMap((text) => text.split('/').map((_, i, all) => all.slice(0, i).join('/'))),
    ]);
    for (const folder of folders) {
      const base = folder === '' ? '' : `${folder}/`;
      const inside = texts.filter((text) => text.startsWith(base)).map((text) => text.slice(base.length));
      const expected = new Set(inside.map((text) => base + text.replace(/\/.*$/s, '/')));
      const limit = 1 + (seed % 7);
      const found = await allOf((from) => folderPage(reads, id, bytes(folder), { from, limit }));
      assert.deepEqual(found.map(nameOf), [...expected].toSorted(), `seed ${seed}, folder ${JSON.stringify(folder)}`);
    }
    for (const text of ['', 'a', 'É', 'a/', '0', '\uFFFD', 'a\uFFFD', '\u0001']) {
      const found = await allOf((from) => searchPage(reads, id, text, { from, limit: 5 }));
      const has = (path: Buffer) => displayName(path).toLowerCase().includes(text.toLowerCase());
      const expected = paths.filter(has).map((path) => path.toString('latin1'));
      assert.deepEqual(found.map(nameOf), expected.toSorted(), `seed ${seed}, text ${JSON.stringify(text)}`);
    }
  }
});

test('a folder beside thousands of files is read along the index, and past what it holds', sqliteOnly, async () => {
  const api = await shared();
  const { id } = await api.directory();
  const many = Array.from({ length: 5000 }, (_, index) => bytes(`big/${index}`));
  await recordFiles(api.database, id, [...many, bytes('after'), bytes('zz/one')]);
  const { reads } = api.database;
  const asked: CompiledQuery[] = [];
  const watched = new Proxy(reads, {
    get: (target, name) =>
      name === 'executeQuery'
        ? (query: CompiledQuery) => (asked.push(query), target.executeQuery(query))
        : (Reflect.get(target, name) as () => unknown).bind(target),
  });
  const { entries } = await folderPage(watched, id, Buffer.alloc(0), { from: Buffer.alloc(0), limit: 100 });
  assert.deepEqual(entries.map(nameOf), ['after', 'big/', 'zz/']);
  assert.ok(asked.length <= 3, `${asked.length} queries`);
  const [query] = asked;
  assert.ok(query);
  const { rows } = await reads.executeQuery<{ detail: string }>({ ...query, sql: `explain query plan ${query.sql}` });
  assert.match(
    rows.map(({ detail }) => detail).join(),
    /^SEARCH files USING INDEX \S+ \(directory_id=\? AND path>\? AND path<\?\)$/,
  );
});
