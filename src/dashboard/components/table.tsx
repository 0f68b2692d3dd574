/** A table that scrolls by itself on a narrow screen. Its children are the rows. */
import type { FC, PropsWithChildren } from 'hono/jsx';

export const Table: FC<PropsWithChildren<{ caption: string; columns: readonly string[] }>> = ({
  caption,
  columns,
  children,
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
      <tbody>{children}</tbody>
    </table>
  </div>
);
