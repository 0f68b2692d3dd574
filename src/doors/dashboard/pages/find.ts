/** What is suggested while one types: in the search at the side of every page, and in fields for directories. JSON. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import { plainText } from '../../../foundation/base/hidden-characters.ts';
import type { DashboardEnv } from '../environment.ts';
import { directoriesWith, found } from '../queries/find.ts';

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
