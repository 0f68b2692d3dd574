/** Adds the forms of a directory's pages. Each form posts to its own path, which redirects back to the page. */
import type { Hono } from 'hono';
import type { Target } from '../../../../rules/directories/target.ts';
import { type DashboardEnv, type FormFields, type PageContext, pathOf, targetOf } from '../../environment.ts';
import { tabPath } from '../../components/layout.tsx';
import { submitted } from '../../form.ts';
import { adminOnly } from '../../guard.ts';

const PATH = '/dashboard/directories/:id';

type Change = (c: PageContext, target: Target, given: FormFields) => Promise<unknown>;

export function directoryActions(
  app: Hono<DashboardEnv>,
  page: (c: PageContext) => Response | Promise<Response>,
  tab: 'Access' | 'Settings',
) {
  /** Adds an action for admins and members. `tabAfter` is the tab to which it leads, by its name. */
  const action = (name: string, done: string, change: Change, tabAfter: (given: FormFields) => string = () => tab) => {
    app.post(`${PATH}/${name}`, (c) =>
      submitted(c, page, async (given) => {
        await change(c, targetOf(c), given);
        return `${pathOf(c)}${tabPath(tabAfter(given))}?done=${done}`;
      }),
    );
  };
  const adminAction: typeof action = (name, ...others) => {
    app.use(`${PATH}/${name}`, async (c, next) => (c.req.method === 'POST' ? adminOnly(c, next) : next()));
    action(name, ...others);
  };
  app.get(`${PATH}${tabPath(tab)}`, page);
  return { action, adminAction };
}
