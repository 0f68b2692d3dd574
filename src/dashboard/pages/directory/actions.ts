/** Adds the forms of a directory's pages. Each form posts to its own path, which redirects back to the page. */
import type { Hono } from 'hono';
import type { Target } from '../../../directories/target.ts';
import { type DashboardEnv, type FormFields, type PageContext, pathOf, targetOf } from '../../environment.ts';
import { submitted } from '../../form.ts';
import { adminOnly } from '../../guard.ts';

const PATH = '/dashboard/directories/:id';

type Change = (c: PageContext, target: Target, given: FormFields) => Promise<unknown>;

/** `tab` is the last part of the page's path. */
export function directoryActions(
  app: Hono<DashboardEnv>,
  page: (c: PageContext) => Response | Promise<Response>,
  tab: 'connect' | 'settings',
) {
  /** Adds an action for admins and members. */
  const action = (name: string, done: string, change: Change): void => {
    app.post(`${PATH}/${name}`, (c) =>
      submitted(c, page, async (given) => {
        await change(c, targetOf(c), given);
        return `${pathOf(c)}/${tab}?done=${done}`;
      }),
    );
  };
  const adminAction = (name: string, done: string, change: Change): void => {
    app.use(`${PATH}/${name}`, async (c, next) => (c.req.method === 'POST' ? adminOnly(c, next) : next()));
    action(name, done, change);
  };
  app.get(`${PATH}/${tab}`, page);
  return { action, adminAction };
}
