/** What the search at the side of every page suggests while one types, as JSON. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import { plainText } from '../../../foundation/base/hidden-characters.ts';
import type { DashboardEnv } from '../environment.ts';
import { found } from '../queries/find.ts';

/** In characters; longer than every name. */
const LONGEST = 300;

export function findPage(app: Hono<DashboardEnv>, { database: { reads } }: AppContext): void {
  app.get('/dashboard/find/all', async (c) => {
    const text = (c.req.query('q') ?? '').trim().slice(0, LONGEST);
    const all = text === '' ? [] : await found(reads, c.get('user').principal, text);
    return c.json(all.map(({ name, about, address }) => ({ name: plainText(name), about: plainText(about), address })));
  });
}
