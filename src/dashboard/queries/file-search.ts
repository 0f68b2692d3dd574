/**
 * Files of a directory with a text anywhere in their path, in either case. The index of paths is read in the order of paths, some
 * thousand at a time, so that others are served in between: no index of trigrams slows down each upload for it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { compiled } from '../../db/compiled.ts';
import { byPath, pathWithin } from '../../db/file-paths.ts';
import type { Tables } from '../../db/schema.ts';
import { displayName } from '../../uploads/file-path.ts';
import type { ListedEntry, Page } from '../../files/folders.ts';

/** Paths that are read at once: some 5 ms. */
const LOT = 5000;
/** Paths that are looked through for one page; the next goes on from there. */
const LOOKED_THROUGH = 200_000;

/** After every path. */
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
    .orderBy(byPath(db))
    .limit(p('limit')),
);

/** Folds a text for comparison: case, and the encoding of accents. */
const folded = (text: string): string => text.normalize().toLowerCase();

/** `next` is set as well where nothing was found in as many paths as one page looks through. */
export async function searchPage(
  reads: Kysely<Tables>,
  directory: string,
  text: string,
  { from, limit }: { from: Buffer; limit: number },
): Promise<Page<ListedEntry>> {
  const wanted = folded(text);
  const found: Buffer[] = [];
  let at = from;
  let left = LOOKED_THROUGH;
  for (let hasMore = true; hasMore && left > 0 && found.length <= limit; left -= LOT) {
    const lot = await paths.all(reads, { directory, from: at, limit: LOT });
    found.push(...lot.map(({ path }) => path).filter((path) => folded(displayName(path)).includes(wanted)));
    hasMore = lot.length === LOT;
    const last = lot.at(-1)?.path;
    // No name holds a zero byte.
    if (last) at = Buffer.concat([last, Buffer.of(0)]);
    if (!hasMore) left = -1;
    await setImmediate();
  }
  const shown = found.slice(0, limit);
  const files = await filesAt(reads, directory, shown);
  const isOver = left < 0;
  return { entries: files.map((file) => ({ file })), next: found[limit] ?? (isOver ? undefined : at) };
}

async function filesAt(reads: Kysely<Tables>, directory: string, some: readonly Buffer[]) {
  const files = [];
  for (const path of some) {
    const row = await atPath.all(reads, { directory, from: path, to: Buffer.concat([path, Buffer.of(0)]) });
    files.push(...row);
  }
  return files;
}

const atPath = compiled<{ directory: string; from: Buffer; to: Buffer }>()((db, p) =>
  db
    .selectFrom('files')
    .select(['id', 'path', 'size_bytes', 'uploaded_at', 'state'])
    .where('directory_id', '=', p('directory'))
    .where(pathWithin(db, p('from'), p('to'))),
);

/** Files that are counted. */
export const COUNTED_FILES = 100_000;

/** How many files a directory has, up to one more than are counted. */
export async function fileCount(reads: Kysely<Tables>, directoryId: string): Promise<number> {
  const some = reads
    .selectFrom('files')
    .select('directory_id')
    .where('directory_id', '=', directoryId)
    .limit(COUNTED_FILES + 1);
  const { count } = await reads
    .selectFrom(some.as('some'))
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}
