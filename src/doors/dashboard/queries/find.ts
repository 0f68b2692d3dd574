/**
 * Finds pages, directories, files and people by a part of their names. The cost is bounded: files are those of the account's latest
 * transfers only, which the Activity page searches further.
 */
import type { Kysely } from 'kysely';
import { among } from '../../../foundation/db/dialect.ts';
import { anyContains } from '../../../foundation/db/lists.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import type { Principal } from '../../../rules/keys/authenticate.ts';
import { DIRECTORIES, IMPORT } from '../directories-view.ts';
import { directoryPage } from './directories.ts';

export interface Found {
  readonly name: string;
  /** What it is, or where. */
  readonly about: string;
  readonly address: string;
}

const PAGES: readonly Found[] = Object.entries({
  Home: '/dashboard',
  Directories: DIRECTORIES,
  'New directory': `${DIRECTORIES}/new`,
  Import: IMPORT,
  Deliveries: '/dashboard/deliveries',
  Activity: '/dashboard/activity',
  'Settings: account, webhook': '/dashboard/account',
  'Settings: team': '/dashboard/team',
  'Settings: API keys': '/dashboard/api-keys',
  'Your profile: password, sessions': '/dashboard/profile',
}).map(([name, address]) => ({ name, about: 'page', address }));

/** How many of each kind are suggested. */
const MOST = { pages: 3, directories: 6, files: 4, people: 3 };
/** Files are searched for with at least this many characters, among this many of the latest transfers. */
const SHORTEST = 3;
const SEARCHED = 5000;

/** The account and limits of the user who searches. */
type Whose = Pick<Principal, 'accountId' | 'scope'>;

/** Directories first: they are what most searches are for. Pages and people are those of the whole account. */
export async function found(reads: Kysely<Tables>, whose: Whose, text: string): Promise<Found[]> {
  const isWhole = whose.scope.directories === undefined;
  const pages = isWhole ? PAGES.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase())) : [];
  return [
    ...(await directoriesWith(reads, whose, text)),
    ...pages.slice(0, MOST.pages),
    ...(text.length < SHORTEST ? [] : await filesWith(reads, whose, text)),
    ...(isWhole ? await peopleWith(reads, whose.accountId, text) : []),
  ];
}

/** `about` is the username. */
export async function directoriesWith(reads: Kysely<Tables>, whose: Whose, text: string): Promise<Found[]> {
  const listing = { search: text, order: 'name', isReversed: false } as const;
  const { rows } = await directoryPage(reads, whose, listing);
  return rows
    .slice(0, MOST.directories)
    .map(({ id, name, sftp_username }) => ({ name, about: sftp_username, address: `${DIRECTORIES}/${id}` }));
}

async function filesWith(reads: Kysely<Tables>, { accountId, scope }: Whose, text: string): Promise<Found[]> {
  const latest = reads
    .selectFrom('transfers')
    .select(['at', 'event', 'directory_id', 'path'])
    .where('account_id', '=', accountId)
    .orderBy('at', 'desc')
    .limit(SEARCHED);
  const matching = reads
    .selectFrom(latest.as('latest'))
    .innerJoin('directories', 'directories.id', 'latest.directory_id')
    .select(['latest.path', 'directories.id', 'directories.name'])
    .where('latest.event', '=', 'uploaded')
    .where('deleted_at', 'is', null)
    .where(anyContains(reads, ['latest.path'], text))
    .orderBy('latest.at', 'desc')
    // The same file may have arrived several times.
    .limit(MOST.files * 5);
  const within = scope.directories && matching.where('directories.id', 'in', among(reads, [...scope.directories]));
  const rows = await (within ?? matching).execute();
  const files = rows.map(({ path, id, name }) => ({
    name: path ?? '',
    about: `file in ${name}`,
    address: `${DIRECTORIES}/${id}/files?${new URLSearchParams({ q: path ?? '' }).toString()}`,
  }));
  return [...new Map(files.map((file) => [file.address, file])).values()].slice(0, MOST.files);
}

async function peopleWith(reads: Kysely<Tables>, accountId: string, text: string): Promise<Found[]> {
  const rows = await reads
    .selectFrom('users')
    .select(['id', 'email', 'role'])
    .where('account_id', '=', accountId)
    .where(anyContains(reads, ['email'], text))
    .orderBy('email')
    .limit(MOST.people)
    .execute();
  return rows.map(({ id, email, role }) => ({ name: email, about: role, address: `/dashboard/team/${id}` }));
}
