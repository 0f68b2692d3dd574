/** Directories in a table whose headings put it into another order. */
import type { FC } from 'hono/jsx';
import type { Micros } from '../../clock.ts';
import type { ListedDirectory, Order } from '../queries/directories.ts';
import { DirectoryState } from './directory-state.tsx';
import { Text } from './text.tsx';
import { Size, Time } from './values.tsx';

const COLUMNS: Readonly<Record<string, Order | undefined>> = {
  Name: 'name',
  Username: undefined,
  Storage: 'storage',
  'Last upload': 'upload',
  Created: 'created',
  State: undefined,
};

interface Heading {
  readonly address: string;
  /** Undefined for a column that the table is not ordered by. */
  readonly sorted: 'ascending' | 'descending' | undefined;
}

interface DirectoryTableProps {
  readonly rows: readonly ListedDirectory[];
  /** By their ids, those whose webhook fails. */
  readonly failing: ReadonlyMap<string, unknown>;
  readonly now: Micros;
  headingOf(order: Order): Heading;
}

export const DirectoryTable: FC<DirectoryTableProps> = ({ rows, failing, now, headingOf }) => (
  <div class="scroll" tabindex={0}>
    <table>
      <caption>Directories of your account</caption>
      <thead>
        <tr>
          {Object.entries(COLUMNS).map(([name, order]) =>
            order ? <SortedBy name={name} {...headingOf(order)} /> : <th scope="col">{name}</th>,
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <Row of={row} isFailing={failing.has(row.id)} now={now} />
        ))}
      </tbody>
    </table>
  </div>
);

const SortedBy: FC<Heading & { name: string }> = ({ name, address, sorted }) => (
  <th scope="col" aria-sort={sorted}>
    <a href={address}>{name}</a>
    {sorted !== undefined && <span aria-hidden="true">{sorted === 'ascending' ? ' ↑' : ' ↓'}</span>}
  </th>
);

const Row: FC<{ of: ListedDirectory; isFailing: boolean; now: Micros }> = ({ of: directory, isFailing, now }) => {
  const { id, name, sftp_username, storage_bytes, last_upload_at, inserted_at } = directory;
  const cells = [
    <a href={`/dashboard/directories/${id}`}>
      <Text of={name} />
    </a>,
    <code>{sftp_username}</code>,
    <Size bytes={storage_bytes} />,
    <Time at={last_upload_at === 0 ? null : last_upload_at} />,
    <Time at={inserted_at} />,
    <DirectoryState of={directory} isFailing={isFailing} now={now} />,
  ];
  return (
    <tr>
      {cells.map((cell) => (
        <td>{cell}</td>
      ))}
    </tr>
  );
};
