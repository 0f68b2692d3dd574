/** Directories whose webhooks fail, the worst first. */
import type { FC } from 'hono/jsx';
import { COUNTED, type FailingDirectory } from '../queries/failing-webhooks.ts';
import { number, Table } from './table.tsx';
import { Name } from './text.tsx';
import { counted, Time } from './values.tsx';

export const FailingTable: FC<{ of: readonly FailingDirectory[] }> = ({ of }) => (
  <Table
    caption="Directories with failing webhooks, the worst first"
    columns={['Directory', number('Failed deliveries'), 'Failing since']}
    rows={of.map(({ id, name, failed, since }) => [
      <Name of={name} href={`/dashboard/directories/${id}/webhook`} />,
      <a href={`/dashboard/deliveries?state=failed&directory=${id}`}>
        {failed === COUNTED ? `${counted(COUNTED)} or more` : counted(failed)}
      </a>,
      <Time at={since} />,
    ])}
  />
);
