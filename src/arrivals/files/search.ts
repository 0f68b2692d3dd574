/**
 * Searches a directory's files for a text anywhere in their paths; upper and lower case are equal. Reads the index of paths, some
 * thousand at a time, so that other requests are served in between. An index of trigrams would slow down every upload.
 */
import { setImmediate } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { countRows } from '../../foundation/db/lists.ts';
import { compiled, compiledEach } from '../../foundation/db/compiled.ts';
import { byPath, pathIs, pathWithin } from '../../foundation/db/file-paths.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { displayName } from '../uploads/file-path.ts';
import type { ListedEntry, ListedState, Page } from './folders.ts';

/** Paths that are read at once: few at first, since many may match, and at most as many as take about 5 ms. They may be long. */
const FIRST_BATCH = 250;
const BATCH = 5000;
const BATCH_BYTES = 250_000;
/** At most this many paths are searched for one page; the next page continues from there. */
const MOST_SEARCHED = 200_000;

/** A bound after every path. */
const END = Buffer.alloc(256, 0xff);

interface Range {
  readonly directory: string;
  readonly from: Buffer;
  readonly limit: number;
}

const paths = compiled<Range>()((db, p) =>
  db
    .selectFrom('files')
    .select('path')
    .where('directory_id', '=', p('directory'))
    .where(pathWithin(db, p('from'), END))
    .where('state', '!=', 'removed')
    .orderBy(byPath(db))
    .limit(p('limit')),
);

/** Folds a text for comparison: case, and the encoding of accents. */
const folded = (text: string): string => text.normalize().toLowerCase();

/** A page. If the search had to stop before the page was full, `next` is set too, and the next page continues from there. */
export async function searchPage(
  reads: Kysely<Tables>,
  directory: string,
  text: string,
  { from, limit }: { from: Buffer; limit: number },
): Promise<Page<ListedEntry>> {
  const wanted = folded(text);
  const found: Buffer[] = [];
  let at = from;
  let left = MOST_SEARCHED;
  let size = FIRST_BATCH;
  for (let hasMore = true; hasMore && left > 0 && found.length <= limit;) {
    const batch = await paths.all(reads, { directory, from: at, limit: size });
    found.push(...batch.map(({ path }) => path).filter((path) => folded(displayName(path)).includes(wanted)));
    hasMore = batch.length === size;
    left -= size;
    const bytes = batch.reduce((sum, { path }) => sum + path.length, 0);
    size = Math.ceil(Math.min(size * 4, BATCH, (size * BATCH_BYTES) / Math.max(bytes, 1), Math.max(left, 1)));
    const last = batch.at(-1)?.path;
    // The smallest path after the last one: no name has a zero byte.
    if (last) at = Buffer.concat([last, Buffer.of(0)]);
    if (!hasMore) left = -1;
    await setImmediate();
  }
  const shown = found.slice(0, limit);
  const files = await filesAt(
    reads,
    shown.map((path) => ({ directory, path })),
  );
  files.sort((a, b) => Buffer.compare(a.path, b.path));
  const isOver = left < 0;
  return { entries: files.map((file) => ({ file })), next: found[limit] ?? (isOver ? undefined : at) };
}

const filesAt = compiledEach<{ directory: string; path: Buffer }>()(
  (db, p) =>
    db
      .selectFrom('files')
      .select(['id', 'path', 'size_bytes', 'uploaded_at', 'state'])
      .where('directory_id', '=', p('directory'))
      .where(pathIs(db, p('path')))
      .where('state', '!=', 'removed')
      .$narrowType<{ state: ListedState }>(),
  (rows, db) => db.selectFrom(rows.as('f')).selectAll(),
);

/** At most this many files are counted. */
export const COUNTED_FILES = 100_000;

/**
 * How many files a directory has, at most `COUNTED_FILES` + 1. Those that are removed are counted apart: for their state alone, SQLite
 * would read every row.
 */
export async function fileCount(reads: Kysely<Tables>, directoryId: string): Promise<number> {
  const of = reads
    .selectFrom('files')
    .select('directory_id')
    .where('directory_id', '=', directoryId)
    .limit(COUNTED_FILES + 1);
  const all = await countRows(reads, of);
  return all > COUNTED_FILES ? all : all - (await countRows(reads, of.where('state', '=', sql.lit('removed'))));
}
