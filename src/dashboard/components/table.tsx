/** A table that scrolls by itself on a narrow screen, by keyboard too, and its rows. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';

export const Table: FC<PropsWithChildren<{ caption: string; columns: readonly string[] }>> = ({
  caption,
  columns,
  children,
}) => (
  <div class="scroll" role="region" aria-label={caption} tabindex={0}>
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

/** A cell for each column. */
export const Row: FC<{ of: readonly Child[] }> = ({ of }) => (
  <tr>
    {of.map((cell) => (
      <td>{cell}</td>
    ))}
  </tr>
);
