/** A table that scrolls if it is too wide, also by keyboard. On a phone, each row is a card. The first cell of a row is its heading. */
import { setImmediate } from 'node:timers/promises';
import type { Child, FC, PropsWithChildren } from 'hono/jsx';

/**
 * A column. `number`: its cells and its heading are aligned to the right. `extra`: it is left out on a narrow screen. `end`: in
 * lines, it stands at the end of the first.
 */
export interface Column {
  readonly name: string;
  readonly kind?: 'number' | 'extra' | 'end';
  /** A control before its name. */
  readonly control?: Child;
}

/** A column by which the table can be sorted. */
export interface SortableColumn extends Column {
  readonly address: string;
  /** Undefined if the table is not sorted by it. */
  readonly sorted: 'ascending' | 'descending' | undefined;
}

interface TableProps {
  readonly caption: string;
  readonly columns: readonly (string | Column | SortableColumn)[];
  /** A cell for each column, or a single one for the whole row. */
  readonly rows: readonly (readonly Child[])[];
  /** Whether a row has two lines on a phone, instead of one for each cell. */
  readonly isCompact?: boolean;
}

/** A column of numbers. */
export const number = (name: string): Column => ({ name, kind: 'number' });

/** A table; without rows, shows its children. */
export const Table: FC<PropsWithChildren<TableProps>> = ({ caption, columns, rows, isCompact = false, children }) => {
  if (rows.length === 0) return <>{children}</>;
  const all = columns.map((column): Column | SortableColumn =>
    typeof column === 'string' ? { name: column } : column,
  );
  return (
    <div class={isCompact ? 'scroll lines' : 'scroll'} role="region" aria-label={caption} tabindex={0}>
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
          <Rows columns={all} rows={rows} />
        </tbody>
      </table>
    </div>
  );
};

/** How many cells are rendered at once. Other requests have their turn before the next ones. */
const CELLS_AT_ONCE = 100;

interface RowsProps {
  readonly columns: readonly Column[];
  readonly rows: TableProps['rows'];
}

const Rows: FC<RowsProps> = ({ columns, rows }) => {
  const now = Math.ceil(CELLS_AT_ONCE / columns.length);
  return (
    <>
      {rows.slice(0, now).map((cells) => (
        <tr>
          {cells.map((cell, index) => (
            <td
              role={index === 0 && cells.length > 1 ? 'rowheader' : undefined}
              class={columns[index]?.kind}
              colspan={cells.length === 1 ? columns.length : undefined}
              data-label={index > 0 ? columns[index]?.name : undefined}
            >
              {cell}
            </td>
          ))}
        </tr>
      ))}
      {rows.length > now && <LaterRows columns={columns} rows={rows.slice(now)} />}
    </>
  );
};

const LaterRows = async (props: RowsProps) => {
  await setImmediate();
  return <Rows {...props} />;
};

const Heading: FC<{ column: Column | SortableColumn }> = ({ column }) =>
  'address' in column ? (
    <th scope="col" class={column.kind} aria-sort={column.sorted}>
      <a href={column.address}>{column.name}</a>
      {column.sorted !== undefined && <span aria-hidden="true">{column.sorted === 'ascending' ? ' ↑' : ' ↓'}</span>}
    </th>
  ) : (
    <th scope="col" class={column.kind}>
      {column.control}
      {column.control === undefined ? column.name : <span>{column.name}</span>}
    </th>
  );
