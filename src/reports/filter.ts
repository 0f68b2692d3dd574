/** The filters of the reports. */
import { type RawBuilder, sql } from 'kysely';
import type { Micros } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import { OperatorError } from '../base/errors.ts';

export interface Filter {
  /** A directory's id. */
  readonly directory?: string | undefined;
  readonly account?: string | undefined;
  readonly since?: Micros | undefined;
  /** Up to and including this moment. */
  readonly until?: Micros | undefined;
  /** How many entries, newest first. */
  readonly limit: number;
}

/** The filter as an SQL condition on these columns. */
export function matches(
  { directory, account, since, until }: Filter,
  columns: Readonly<Record<'directory' | 'account' | 'time', string>>,
): RawBuilder<boolean> {
  const conditions = [
    directory !== undefined && sql`${sql.ref(columns.directory)} = ${directory}`,
    account !== undefined && sql`${sql.ref(columns.account)} = ${account}`,
    since !== undefined && sql`${sql.ref(columns.time)} >= ${since}`,
    until !== undefined && sql`${sql.ref(columns.time)} <= ${until}`,
  ];
  return sql<boolean>`${sql.join([sql`true`, ...conditions.filter((condition) => condition !== false)], sql` and `)}`;
}

/**
 * The id of the directory that an administrator names by its id or its SFTP username. An id may be that of a deleted directory, whose
 * history remains.
 * @throws {OperatorError} when nothing has that name.
 */
export async function directoryNamed({ db }: Database, text: string): Promise<string> {
  const found = await db
    .selectFrom('directories')
    .select('id')
    .where((eb) => eb.or([eb('id', '=', text), eb('sftp_username', '=', text)]))
    .executeTakeFirst();
  if (found) return found.id;
  if (isId(text)) return text;
  throw new OperatorError(`there is no directory ${JSON.stringify(text)}: see berth directory list`);
}

/** Whether a text has the form of an id, even of a directory that no longer exists. */
function isId(text: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(text);
}
