/** What the reports can be narrowed to. */
import type { Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import { OperatorError } from '../errors.ts';

export interface Filter {
  /** A directory's id. */
  readonly directory?: string | undefined;
  readonly account?: string | undefined;
  readonly since?: Micros | undefined;
  /** Rows at most: the newest. */
  readonly limit: number;
}

/**
 * The id of the directory that an administrator means by its id or its SFTP username. An id may be that of a directory
 * that is gone: its history is still there.
 * @throws {OperatorError} when nothing is known by that name.
 */
export async function directoryMeant({ db }: Database, text: string): Promise<string> {
  const found = await db
    .selectFrom('directories')
    .select('id')
    .where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)]))
    .executeTakeFirst();
  if (found) return found.id;
  if (/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(text)) return text;
  throw new OperatorError(`there is no directory ${JSON.stringify(text)}: see berth directories`);
}
