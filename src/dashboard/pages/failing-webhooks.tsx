/** All directories of the account whose webhooks fail now. */
import type { Hono } from 'hono';
import type { Database } from '../../db/open.ts';
import { FailingTable } from '../components/failing-webhooks.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Pager } from '../components/section.tsx';
import type { DashboardEnv } from '../environment.ts';
import { failingDirectories } from '../queries/failing-webhooks.ts';

export const FAILING = '/dashboard/failing-webhooks';
const PAGE = 50;

export function failingWebhooksPage(app: Hono<DashboardEnv>, { reads }: Pick<Database, 'reads'>): void {
  app.get(FAILING, async (c) => {
    const page = Math.min(Number(/^\d{1,3}$/.exec(c.req.query('page') ?? '')?.[0] ?? 0), 100);
    const { accountId } = c.get('user').principal;
    const all = await failingDirectories(reads, accountId, (page + 1) * PAGE + 1);
    const shown = all.slice(page * PAGE, (page + 1) * PAGE);
    return c.render(
      <Layout title="Failing webhooks">
        <p>Their receivers refused or did not answer, and nothing has been delivered since.</p>
        <FailingTable of={shown} />
        {shown.length === 0 && <Empty title="No webhook is failing" />}
        <Pager
          of="directories"
          previous={page > 0 ? `?page=${page - 1}` : undefined}
          next={all.length > (page + 1) * PAGE ? `?page=${page + 1}` : undefined}
        />
      </Layout>,
    );
  });
}
