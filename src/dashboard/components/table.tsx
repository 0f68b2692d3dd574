/** A table that scrolls by itself on a narrow screen. Each row has a cell for each column. */
import type { Child, FC } from 'hono/jsx';

export const Table: FC<{ caption: string; columns: readonly string[]; rows: readonly (readonly Child[])[] }> = ({
  caption,
  columns,
  rows,
}) => (
  <div class="scroll" tabindex={0}>
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th scope="col">{column}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells) => (
          <tr>
            {cells.map((cell) => (
              <td>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
