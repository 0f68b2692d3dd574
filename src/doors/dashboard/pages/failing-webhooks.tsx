/** All directories of the account whose webhooks are failing. */
import type { Hono } from 'hono';
import type { Database } from '../../../foundation/db/open.ts';
import { Layout } from '../components/layout.tsx';
import { Empty, Pager } from '../components/section.tsx';
import type { DashboardEnv } from '../environment.ts';
import { deliveriesOf } from '../directories-view.ts';
import { COUNTED, failingDirectories, type FailingDirectory } from '../queries/failing-webhooks.ts';
import type { FC } from 'hono/jsx';
import { number, Table } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { counted, Time } from '../components/values.tsx';

export const FAILING = '/dashboard/failing-webhooks';
const PAGE = 50;

export function failingWebhooksPage(app: Hono<DashboardEnv>, { reads }: Pick<Database, 'reads'>): void {
  app.get(FAILING, async (c) => {
    const page = Math.min(Number(/^\d{1,3}$/.exec(c.req.query('page') ?? '')?.[0] ?? 0), 100);
    const { accountId } = c.get('user').principal;
    const all = await failingDirectories(reads, accountId, (page + 1) * PAGE + 1);
    const shown = all.slice(page * PAGE, (page + 1) * PAGE);
    return c.render(
      <Layout title="Failing webhooks" above={[['Overview', '/dashboard']]}>
        {shown.length === 0 ? (
          <Empty title="No webhook is failing" />
        ) : (
          <>
            <p>Receivers rejected these webhooks or didn’t respond, and nothing has been delivered since.</p>
            <FailingTable of={shown} />
          </>
        )}
        <Pager
          of="directories"
          previous={page > 0 ? `?page=${page - 1}` : undefined}
          next={all.length > (page + 1) * PAGE ? `?page=${page + 1}` : undefined}
        />
      </Layout>,
    );
  });
}

/** Directories whose webhooks fail, the worst first. */
export const FailingTable: FC<{ of: readonly FailingDirectory[] }> = ({ of }) => (
  <Table
    caption="Directories with failing webhooks, the worst first"
    columns={['Directory', number('Failed deliveries'), 'Failing since']}
    rows={of.map(({ id, name, failed, since }) => [
      <Name of={name} href={`/dashboard/directories/${id}/webhook`} />,
      <a href={`${deliveriesOf(id)}&state=failed`}>
        {failed === COUNTED ? `${counted(COUNTED)} or more` : counted(failed)}
      </a>,
      <Time at={since} />,
    ])}
  />
);
