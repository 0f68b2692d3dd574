/** In place of a list that has nothing yet: says so, and what to do next (its children). */
import type { FC, PropsWithChildren } from 'hono/jsx';

export const Empty: FC<PropsWithChildren<{ title: string }>> = ({ title, children }) => (
  <div class="empty">
    <p>
      <strong>{title}</strong>
    </p>
    {children}
  </div>
);
