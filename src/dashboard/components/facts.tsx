/** What is known of a thing, each under its name. */
import type { Child, FC } from 'hono/jsx';

export const Facts: FC<{ of: readonly (readonly [name: string, value: Child])[] }> = ({ of }) => (
  <dl>
    {of.map(([name, value]) => (
      <>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </>
    ))}
  </dl>
);
