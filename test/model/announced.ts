/** Compares what the history says was uploaded with what has happened. */
import type { Database } from '../../src/foundation/db/open.ts';
import type { IsTemporary } from '../../src/arrivals/uploads/file-path.ts';
import type { Jail } from '../../src/arrivals/uploads/jails.ts';
import type { Truth } from './truth.ts';

interface About {
  readonly database: Database;
  readonly jail: Jail;
  readonly truth: Truth;
  readonly isTemporary: IsTemporary;
}

/** The path as berth keeps it, one character for each byte. */
export function fromDisplayed(name: string): string {
  return Buffer.from(name).toString('latin1');
}

/** Uploads that were not announced once, or were though they had been dropped. */
export async function announcedWrongly({ database, jail, truth, isTemporary }: About): Promise<string[]> {
  const wrong: string[] = [];
  const rows = await database.db
    .selectFrom('transfers')
    .select(['path', 'bytes', 'event'])
    .where('directory_id', '=', jail.id)
    .where('event', '=', 'uploaded')
    .execute();
  const transfers = rows.map((row) => ({ ...row, path: row.path && fromDisplayed(row.path) }));
  const contents = Map.groupBy(
    [...new Set([...truth.names.keys(), ...truth.promised.keys(), ...truth.allowed])],
    Math.floor,
  );
  const keysOf = (bytes: number): readonly number[] => contents.get(bytes) ?? [];
  // What was appended under a lagging log may get the size of another session's file.
  const isOfIt = ({ bytes, path }: (typeof transfers)[number]): boolean => {
    const named = keysOf(bytes ?? 0).filter((key) => truth.names.has(key));
    return (
      named.length === 0 || named.some((key) => truth.names.get(key)?.has(path ?? '') === true || truth.raced.has(key))
    );
  };
  const times = Map.groupBy(transfers.filter(isOfIt), ({ bytes }) => bytes ?? 0);
  for (const [bytes, keys] of contents) {
    const promised = keys.filter((key) => truth.promised.has(key));
    const all = times.get(bytes) ?? [];
    const allowed = keys.filter((key) => truth.allowed.has(key) && !truth.promised.has(key)).length;
    const earlier = keys.reduce((sum, key) => sum + (truth.earlier.get(key) ?? 0), 0);
    const most = promised.length + allowed + earlier;
    const isCounted = (key: number): boolean =>
      transfers.some((each) => truth.logged.get(key)?.includes(each.bytes ?? 0) === true);
    // Once its file has been found, it is announced with its real size, too, under the name that it has then.
    if (all.length <= promised.length && promised.some(isCounted)) continue;
    const paths = promised.map((key) => truth.promised.get(key)).join(', ');
    if (all.length < promised.length || (all.length > most && most > 0)) {
      wrong.push(`${paths} ${bytes} was announced ${all.length} times`);
    } else if (most === promised.length) {
      for (const { path } of all) {
        const isName = promised.some((key) => truth.isNameOf(key, path ?? '', isTemporary));
        if (most > 0 && !isName) wrong.push(`${paths} ${bytes} was announced as ${path}`);
      }
    }
  }
  if (transfers.some(({ bytes }) => bytes === 0)) wrong.push('an empty file was announced');
  for (const [bytes, why] of truth.forbidden) {
    const isOnly = keysOf(Math.floor(bytes)).every((key) => !truth.promised.has(key));
    if (times.has(bytes) && isOnly) wrong.push(`${bytes} was announced, though it was ${why}`);
  }
  return wrong;
}
