/** A table that scrolls by itself on a narrow screen, by keyboard too, and its rows. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';

/** A column by which the table can be put into order. */
export interface SortableColumn {
  readonly name: string;
  readonly address: string;
  /** Undefined while it is in another order. */
  readonly sorted: 'ascending' | 'descending' | undefined;
}

interface TableProps {
  readonly caption: string;
  readonly columns: readonly (string | SortableColumn)[];
}

export const Table: FC<PropsWithChildren<TableProps>> = ({ caption, columns, children }) => (
  <div class="scroll" role="region" aria-label={caption} tabindex={0}>
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) =>
            typeof column === 'string' ? <th scope="col">{column}</th> : <Sortable {...column} />,
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

const Sortable: FC<SortableColumn> = ({ name, address, sorted }) => (
  <th scope="col" aria-sort={sorted}>
    <a href={address}>{name}</a>
    {sorted !== undefined && <span aria-hidden="true">{sorted === 'ascending' ? ' ↑' : ' ↓'}</span>}
  </th>
);

/** A cell for each column. */
export const Row: FC<{ of: readonly Child[] }> = ({ of }) => (
  <tr>
    {of.map((cell) => (
      <td>{cell}</td>
    ))}
  </tr>
);
