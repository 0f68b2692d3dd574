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
  // What was appended under a lagging log may get the size of another session's file.
  const isOfIt = ({ bytes, path }: (typeof transfers)[number]): boolean => {
    const names = truth.names.get(bytes ?? 0);
    return names === undefined || names.has(path ?? '') || truth.raced.has(bytes ?? 0);
  };
  const times = Map.groupBy(transfers.filter(isOfIt), ({ bytes }) => bytes ?? 0);
  for (const [bytes, path] of truth.promised) {
    const count = times.get(bytes)?.length ?? 0;
    const counted = truth.logged.get(bytes);
    // Once its file has been found, it is announced with its real size, too, under the name that it has then.
    if (count <= 1 && counted !== undefined && transfers.some((each) => each.bytes === counted)) continue;
    const name = times.get(bytes)?.[0]?.path ?? '';
    if (count !== 1) wrong.push(`${path} ${bytes} was announced ${count} times`);
    else if (!truth.isNameOf(bytes, name, isTemporary)) wrong.push(`${path} ${bytes} was announced as ${name}`);
  }
  for (const bytes of truth.allowed) {
    const count = times.get(bytes)?.length ?? 0;
    if (count > 1) wrong.push(`${bytes} was announced ${count} times`);
  }
  for (const [bytes, why] of truth.forbidden) {
    if (times.has(bytes) && !truth.promised.has(bytes)) wrong.push(`${bytes} was announced, though it was ${why}`);
  }
  return wrong;
}
