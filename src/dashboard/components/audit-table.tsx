/** Rows of the audit: when, what, of which directory, by whom. */
import type { FC } from 'hono/jsx';
import { ACTIONS, askerInWords, changesInWords, changesOf } from '../../history/audit-in-words.ts';
import type { AuditRow } from '../queries/account.ts';
import { Empty } from './empty.tsx';
import { Row, Table } from './table.tsx';
import { Text } from './text.tsx';
import { Time } from './values.tsx';

export const AuditTable: FC<{ rows: readonly AuditRow[] }> = ({ rows }) => {
  if (rows.length > 0)
    return (
      <Table caption="Newest first" columns={['When', 'What', 'Directory', 'By']}>
        {rows.map((row) => (
          <Row of={cellsOf(row)} />
        ))}
      </Table>
    );
  return (
    <Empty title="No changes">
      <p>What is created, changed or deleted on these pages or by the API is listed here.</p>
    </Empty>
  );
};

const cellsOf = (row: AuditRow) => [
  <Time at={row.at} />,
  <>
    {ACTIONS[row.action]}{' '}
    <span class="quiet">
      <Text of={changesInWords(changesOf(row))} />
    </span>
  </>,
  row.live_id === null ? row.username : <a href={`/dashboard/directories/${row.live_id}`}>{row.username}</a>,
  <Text of={askerInWords(row)} />,
];
