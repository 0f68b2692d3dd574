/** What pages are made of. */
import type { FC, PropsWithChildren } from 'hono/jsx';

interface SectionProps {
  readonly title: string;
  /** A sentence on it, where it needs one. */
  readonly about?: string | undefined;
  /** For links to it. */
  readonly id?: string;
}

export const Section: FC<PropsWithChildren<SectionProps>> = ({ title, about, id, children }) => (
  <section class="card" id={id}>
    <h2>{title}</h2>
    {about !== undefined && <p class="quiet">{about}</p>}
    {children}
  </section>
);

/** In place of a list that has nothing yet: says so, and what to do next. */
export const Empty: FC<PropsWithChildren<{ title: string }>> = ({ title, children }) => (
  <div class="empty">
    <p>
      <strong>{title}</strong>
    </p>
    {children && <p>{children}</p>}
  </div>
);
