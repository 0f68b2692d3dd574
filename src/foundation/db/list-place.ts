/** What lists share: whose rows they have, and where a page begins. They are ordered by a time and an id, newest first. */
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Micros } from '../base/clock.ts';
import { ValidationError } from '../base/errors.ts';
import { UUID } from '../base/validation.ts';
import type { Tables } from './schema.ts';

/** Whose rows a list has: those of an account, or of one of its directories. */
export interface Owner {
  readonly accountId: string;
  readonly directoryId?: string | undefined;
}

/** Only one of the two conditions, so that the database has only one index to choose. */
export function ownedBy({ accountId, directoryId }: Owner, table: string): RawBuilder<boolean> {
  const [column, value] = directoryId === undefined ? ['account_id', accountId] : ['directory_id', directoryId];
  return sql<boolean>`${sql.ref(`${table}.${column}`)} = ${value}`;
}

/** The place of a row in a list. The row itself may have gone. */
export interface ListPlace {
  readonly at: Micros;
  readonly id: string;
}

/** A place as text: the time and the id. */
export const placeText = ({ at, id }: ListPlace): string => `${at}.${id}`;

/** Undefined when the text is not a place. */
export function placeIn(text = ''): ListPlace | undefined {
  const [, at, id = ''] = /^(\d{1,16})\.(.*)$/.exec(text) ?? [];
  return at !== undefined && UUID.test(id) ? { at: Number(at), id } : undefined;
}

const LISTS = {
  directories: { time: 'inserted_at', owner: 'account_id' },
  deliveries: { time: 'inserted_at', owner: 'directory_id' },
  files: { time: 'uploaded_at', owner: 'directory_id' },
} as const;

/** The place of a row that still exists, even if the list no longer shows it. */
export async function placeInList(
  reads: Kysely<Tables>,
  list: keyof typeof LISTS,
  owner: string,
  id: string,
): Promise<ListPlace> {
  const columns = LISTS[list];
  const { rows } = await sql<ListPlace>`
    select ${sql.ref(columns.time)} as at, id from ${sql.table(list)}
    where id = ${id} and ${sql.ref(columns.owner)} = ${owner}`.execute(reads);
  const [place] = rows;
  if (!place) throw unknownPlace();
  return place;
}

/** The error for an unknown place. An empty page would look like the end of the list. */
export function unknownPlace(): ValidationError {
  return new ValidationError({ after: ['is invalid'] });
}
