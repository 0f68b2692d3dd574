/**
 * What is suggested while one types: in the search at the side of every page, and in fields for directories. JSON. The cost is bounded:
 * files are those of the account's latest transfers only, which the Activity page searches further.
 */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { Kysely } from 'kysely';
import type { Tables } from '../../../foundation/db/schema.ts';
import { anyContains } from '../../../foundation/db/lists.ts';
import { latestUploads } from '../../../operating/reports/activity.ts';
import { directoryPage, namesOf, type Whose } from '../../../rules/directories/view.ts';
import { plainText } from '../../../foundation/base/text.ts';
import type { DashboardEnv } from '../environment.ts';
import { DIRECTORIES, IMPORT } from '../directories-view.ts';

/** In characters; longer than every name. */
const LONGEST = 300;

export function findPage(app: Hono<DashboardEnv>, { database: { reads } }: AppContext): void {
  // The first is for fields, which take the username of a directory.
  for (const [path, find] of [
    ['/dashboard/find', directoriesWith],
    ['/dashboard/find/all', found],
  ] as const)
    app.get(path, async (c) => {
      const text = (c.req.query('q') ?? '').trim().slice(0, LONGEST);
      const all = text === '' ? [] : await find(reads, c.get('user').principal, text);
      return c.json(
        all.map(({ name, about, address }) => ({ name: plainText(name), about: plainText(about), address })),
      );
    });
}

interface Found {
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

/** Directories first: they are what most searches are for. Pages and people are those of the whole account. */
async function found(reads: Kysely<Tables>, whose: Whose, text: string): Promise<Found[]> {
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
async function directoriesWith(reads: Kysely<Tables>, whose: Whose, text: string): Promise<Found[]> {
  const listing = { search: text, order: 'name', isReversed: false } as const;
  const { rows } = await directoryPage(reads, whose, listing);
  return rows
    .slice(0, MOST.directories)
    .map(({ id, name, sftp_username }) => ({ name, about: sftp_username, address: `${DIRECTORIES}/${id}` }));
}

async function filesWith(reads: Kysely<Tables>, { accountId, scope }: Whose, text: string): Promise<Found[]> {
  // The same file may have arrived several times.
  const uploads = await latestUploads(reads, accountId, {
    among: SEARCHED,
    limit: MOST.files * 5,
    search: text,
    only: scope.directories,
  });
  const names = await namesOf(
    reads,
    accountId,
    uploads.map(({ directory_id }) => directory_id),
  );
  const files = uploads.flatMap(({ path, directory_id: id }) => {
    const name = names.get(id);
    const address = `${DIRECTORIES}/${id}/files?${new URLSearchParams({ q: path ?? '' }).toString()}`;
    return name === undefined ? [] : [{ name: path ?? '', about: `file in ${name}`, address }];
  });
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
