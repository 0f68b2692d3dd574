/** Directories in a table whose headings put it into another order. */
import type { FC } from 'hono/jsx';
import type { Micros } from '../../clock.ts';
import type { ListedDirectory, Order } from '../queries/directories.ts';
import { DirectoryState } from './directory-state.tsx';
import { Row, type SortableColumn, Table } from './table.tsx';
import { Text } from './text.tsx';
import { Size, Time } from './values.tsx';

interface DirectoryTableProps {
  readonly rows: readonly ListedDirectory[];
  /** By their ids, those whose webhook fails. */
  readonly failing: ReadonlyMap<string, unknown>;
  readonly now: Micros;
  column(order: Order, name: string): SortableColumn;
}

export const DirectoryTable: FC<DirectoryTableProps> = ({ rows, failing, now, column }) => {
  const [name, storage] = [column('name', 'Name'), column('storage', 'Storage')];
  const [upload, created] = [column('upload', 'Last upload'), column('created', 'Created')];
  return (
    <Table caption="Directories of your account" columns={[name, 'Username', storage, upload, created, 'State']}>
      {rows.map((row) => (
        <Row
          of={[
            <a href={`/dashboard/directories/${row.id}`}>
              <Text of={row.name} />
            </a>,
            <code>{row.sftp_username}</code>,
            <Size bytes={row.storage_bytes} />,
            <Time at={row.last_upload_at === 0 ? null : row.last_upload_at} />,
            <Time at={row.inserted_at} />,
            <DirectoryState of={row} isFailing={failing.has(row.id)} now={now} />,
          ]}
        />
      ))}
    </Table>
  );
};
