/**
 * The lists of directories: by the API, by the dashboard and by commands. Deleted directories are in none of them.
 *
 * The dashboard's is searched, sorted, and read in pages, forward and backward. Each order reads an index that contains the searched
 * columns, so every page costs the same. A search with few results sorts only those; a search with many results fills a page soon.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import { among } from '../../foundation/db/dialect.ts';
import {
  type ListPlace,
  type Owner,
  placeInList,
  unknownPlace,
  contains,
  isAmong,
  mayContain,
} from '../../foundation/db/lists.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import type { Scope } from '../accounts/actor.ts';
import { slugOf } from './identity.ts';

/** The fields of a directory that the API shows (specification, "Resources"). Password hash and public keys are not among them. */
const SHOWN = [
  'id',
  'name',
  'description',
  'slug',
  'external_id',
  'metadata',
  'sftp_host',
  'sftp_port',
  'sftp_username',
  'webhook_url',
  'webhook_secret',
  'max_connections',
  'storage_bytes',
  'retention_days',
  'auth_mode',
  'public_key_fingerprint',
  'inserted_at',
  'updated_at',
] as const satisfies readonly (keyof DirectoryRow)[];

const LISTED = [
  'id',
  'name',
  'slug',
  'external_id',
  'sftp_username',
  'storage_bytes',
  'inserted_at',
] as const satisfies readonly (keyof DirectoryRow)[];

export type ShownDirectory = Pick<DirectoryRow, (typeof SHOWN)[number]>;
export type ListedDirectory = Pick<DirectoryRow, (typeof LISTED)[number]>;

/** At most `limit` rows that come after `after`: a row's id, or the place in the list of a row that may have gone. */
interface Page {
  readonly limit?: number | undefined;
  readonly after?: string | ListPlace | undefined;
}

interface Filter extends Page {
  readonly externalId?: string | undefined;
  readonly only?: ReadonlySet<string> | undefined;
}

const byId = compiled<{ accountId: string; id: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(SHOWN)
    .where('id', '=', p('id'))
    .where('account_id', '=', p('accountId'))
    .where('deleted_at', 'is', null),
);

export function directoryById(
  reads: Kysely<Tables>,
  accountId: string,
  id: string,
): Promise<ShownDirectory | undefined> {
  return byId.first(reads, { accountId, id });
}

/**
 * Newest first. Limited to directories with that `external_id`, and to those whose ids are in `only`, where given.
 * @throws {ValidationError} when the account has no directory with the id `after`, or `only` does not have it.
 */
export async function listDirectories(
  reads: Kysely<Tables>,
  accountId: string,
  { externalId, only, after, limit }: Filter,
): Promise<ListedDirectory[]> {
  if (typeof after === 'string' && only?.has(after) === false) throw unknownPlace();
  const place = typeof after === 'string' ? await placeInList(reads, 'directories', accountId, after) : after;
  let query = inOrder(reads, NEWEST, place && { key: place.at, id: place.id })
    .select(LISTED)
    .where('account_id', '=', accountId);
  if (externalId !== undefined) query = query.where('external_id', '=', externalId);
  if (only) query = query.where('id', 'in', among(reads, [...only]));
  if (limit !== undefined) query = query.limit(limit);
  return query.execute();
}

const REPORTED = [
  ...LISTED,
  'account_id',
  'auth_mode',
  'max_connections',
  'retention_days',
  'webhook_url',
  'updated_at',
] as const satisfies readonly (keyof DirectoryRow)[];

export type ReportedDirectory = Pick<DirectoryRow, (typeof REPORTED)[number]>;

/** For administrators: the newest, of all accounts or of one owner. */
export async function newestDirectories(
  reads: Kysely<Tables>,
  {
    owner,
    since,
    limit,
  }: { readonly owner?: Owner | undefined; readonly since?: Micros | undefined; readonly limit: number },
): Promise<ReportedDirectory[]> {
  let query = inOrder(reads, NEWEST).select(REPORTED).limit(limit);
  if (owner?.directoryId !== undefined) query = query.where('id', '=', owner.directoryId);
  else if (owner) query = query.where('account_id', '=', owner.accountId);
  if (since !== undefined) query = query.where('inserted_at', '>=', since);
  return query.execute();
}

export const PAGE = 50;

/** A search with at most this many results sorts all of them. */
export const FEW = 1000;

/** Each order's column, and whether it is descending unless reversed. */
export const ORDERS = {
  name: { column: 'search', isDown: false },
  storage: { column: 'storage_bytes', isDown: true },
  upload: { column: 'last_upload_at', isDown: true },
  created: { column: 'inserted_at', isDown: true },
} as const;

export type Order = keyof typeof ORDERS;

/** The place of a row in the list. The row itself may have gone. */
export interface SortedPlace {
  readonly key: string | number;
  readonly id: string;
}

interface Sorting {
  readonly column: (typeof ORDERS)[Order]['column'];
  readonly isDownward: boolean;
}

const NEWEST: Sorting = { column: 'inserted_at', isDownward: true };

/** Directories in an order, after a place. */
function inOrder(reads: Kysely<Tables>, { column, isDownward }: Sorting, from?: SortedPlace) {
  const direction = isDownward ? 'desc' : 'asc';
  const query = reads
    .selectFrom('directories')
    .where('deleted_at', 'is', null)
    .orderBy(column, direction)
    .orderBy('id', direction);
  if (!from) return query;
  return query.where(({ eb, refTuple, tuple }) =>
    eb(refTuple(column, 'id'), isDownward ? '<' : '>', tuple(from.key, from.id)),
  );
}

export interface Listing {
  readonly search: string;
  readonly order: Order;
  readonly isReversed: boolean;
  readonly after?: SortedPlace | undefined;
  readonly before?: SortedPlace | undefined;
}

export interface DirectoryEntry extends Pick<
  DirectoryRow,
  | 'id'
  | 'name'
  | 'sftp_username'
  | 'storage_bytes'
  | 'suspended'
  | 'expires_at'
  | 'auth_mode'
  | 'public_key'
  | 'inserted_at'
> {
  readonly last_upload_at: Micros;
}

export interface DirectoryPage {
  readonly rows: readonly DirectoryEntry[];
  /** Where the previous and the next page begin; undefined at the ends of the list. */
  readonly previous: SortedPlace | undefined;
  readonly next: SortedPlace | undefined;
}

/** A search covers the directories of the account, or those that the user is limited to. */
export interface Whose {
  readonly accountId: string;
  readonly scope: Pick<Scope, 'directories'>;
}

/** An id that no directory has: a page that shows the deliveries or the history of that one shows none. */
export const NO_DIRECTORY = 'none';

export async function directoryPage(
  reads: Kysely<Tables>,
  whose: Whose,
  { search, order, isReversed, after, before }: Listing,
): Promise<DirectoryPage> {
  const { accountId, scope } = whose;
  const { column, isDown } = ORDERS[order];
  const isBackward = before !== undefined;
  const isDownward = (isDown !== isReversed) !== isBackward;
  const from = before ?? after;
  const texts = textsOf(search);
  const few = search === '' ? undefined : await mayContain(reads, texts, FEW);
  let query = inOrder(reads, { column, isDownward }, from)
    .select(['id', 'name', 'sftp_username', 'storage_bytes', 'suspended', 'expires_at', 'auth_mode', 'public_key'])
    .select(['inserted_at', 'last_upload_at', `${column} as key`])
    .where((eb) => (few ? isAmong(reads, accountId, few) : eb('account_id', '=', accountId)))
    .limit(PAGE + 1);
  if (scope.directories) query = query.where('id', 'in', among(reads, [...scope.directories]));
  if (search !== '')
    query = query.where(({ eb, or }) => or([eb('id', '=', search), ...texts.map((text) => contains(reads, text))]));
  const some = await query.execute();
  // If fewer rows are left before this page than fit on one, the first page is shown.
  if (isBackward && some.length < PAGE) return directoryPage(reads, whose, { search, order, isReversed });
  const rows = some.slice(0, PAGE);
  if (isBackward) rows.reverse();
  const first = rows.at(0);
  const last = rows.at(-1);
  const isMore = some.length > PAGE;
  return {
    rows,
    previous: (isBackward ? isMore : after !== undefined) ? first : undefined,
    next: isBackward || isMore ? last : undefined,
  };
}

/** The slug of a text that has no characters for one. */
const NO_SLUG = slugOf('');

/**
 * The texts to search for in name, slug, username and external id. Upper and lower case are equal for ASCII letters only. A text
 * with other letters is also searched by its slug, which has them in ASCII.
 */
function textsOf(search: string): string[] {
  const slug = /[^\p{ASCII}]/u.test(search) ? slugOf(search) : NO_SLUG;
  return slug === NO_SLUG ? [search] : [search, slug];
}

/** The account's directories that have one of these usernames. */
export async function directoriesOfUsers(reads: Kysely<Tables>, accountId: string, usernames: readonly string[]) {
  if (usernames.length === 0) return [];
  return reads
    .selectFrom('directories')
    .select(['id', 'name', 'sftp_username'])
    .where('sftp_username', 'in', among(reads, usernames))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
}

/** The names of those of the account's directories that are not deleted, by id. */
export async function namesOf(reads: Kysely<Tables>, accountId: string, ids: readonly string[]) {
  const rows = await reads
    .selectFrom('directories')
    .select(['id', 'name'])
    .where('id', 'in', among(reads, ids))
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

export interface Stored {
  readonly directories: number;
  readonly bytes: number;
}

/** Accounts with at least this many directories are counted once a minute, since 100,000 directories take 10 ms. */
const MANY = 10_000;
const KEPT_MS = 60_000;

/** An account's storage. The numbers of a large account are up to a minute old. */
export function createStored(reads: Kysely<Tables>): (accountId: string) => Promise<Stored> {
  const kept = new Map<string, { readonly stored: Stored; readonly until: number }>();
  return async (accountId) => {
    const known = kept.get(accountId);
    if (known && performance.now() < known.until) return known.stored;
    const stored = await storedIn(reads, accountId);
    if (stored.directories >= MANY) kept.set(accountId, { stored, until: performance.now() + KEPT_MS });
    return stored;
  };
}

export async function storedIn(reads: Kysely<Tables>, accountId: string): Promise<Stored> {
  const { directories, bytes } = await reads
    .selectFrom('directories')
    .select(({ fn }) => [fn.countAll<number>().as('directories'), fn.sum<number | null>('storage_bytes').as('bytes')])
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return { directories, bytes: bytes ?? 0 };
}
