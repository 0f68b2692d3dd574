/** A table that scrolls by itself on a narrow screen, by keyboard too. */
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
  /** A cell for each column, or one for all. */
  readonly rows: readonly (readonly Child[])[];
}

/** Without rows, its children are shown. */
export const Table: FC<PropsWithChildren<TableProps>> = ({ caption, columns, rows, children }) => {
  if (rows.length === 0) return <>{children}</>;
  return (
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
        <tbody>
          {rows.map((cells) => (
            <tr>
              {cells.map((cell) => (
                <td colspan={cells.length === 1 ? columns.length : undefined}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};

const Sortable: FC<SortableColumn> = ({ name, address, sorted }) => (
  <th scope="col" aria-sort={sorted}>
    <a href={address}>{name}</a>
    {sorted !== undefined && <span aria-hidden="true">{sorted === 'ascending' ? ' ↑' : ' ↓'}</span>}
  </th>
);
