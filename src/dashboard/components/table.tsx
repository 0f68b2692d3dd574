/** A table that scrolls on its own where it is too wide, by keyboard too; on a phone each row is a card. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';

/** `number`: its cells and its heading are aligned to the right. */
export interface Column {
  readonly name: string;
  readonly kind?: 'number';
}

/** A column by which the table can be put into order. */
export interface SortableColumn extends Column {
  readonly address: string;
  /** Undefined while it is in another order. */
  readonly sorted: 'ascending' | 'descending' | undefined;
}

interface TableProps {
  readonly caption: string;
  readonly columns: readonly (string | Column | SortableColumn)[];
  /** A cell for each column, or one for all. */
  readonly rows: readonly (readonly Child[])[];
}

/** A column of numbers. */
export const number = (name: string): Column => ({ name, kind: 'number' });

/** Without rows, its children are shown. */
export const Table: FC<PropsWithChildren<TableProps>> = ({ caption, columns, rows, children }) => {
  if (rows.length === 0) return <>{children}</>;
  const all = columns.map((column): Column | SortableColumn =>
    typeof column === 'string' ? { name: column } : column,
  );
  return (
    <div class="scroll" role="region" aria-label={caption} tabindex={0}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {all.map((column) => (
              <Heading column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells) => (
            <tr>
              {cells.map((cell, index) => (
                <td
                  class={all[index]?.kind}
                  colspan={cells.length === 1 ? columns.length : undefined}
                  data-label={index > 0 ? all[index]?.name : undefined}
                >
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};

const Heading: FC<{ column: Column | SortableColumn }> = ({ column }) =>
  'address' in column ? (
    <th scope="col" class={column.kind} aria-sort={column.sorted}>
      <a href={column.address}>{column.name}</a>
      {column.sorted !== undefined && <span aria-hidden="true">{column.sorted === 'ascending' ? ' ↑' : ' ↓'}</span>}
    </th>
  ) : (
    <th scope="col" class={column.kind}>
      {column.name}
    </th>
  );
