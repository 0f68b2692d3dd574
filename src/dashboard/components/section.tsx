/** A part of a page with its heading and, where it needs one, a sentence about it. `id`: for links to it. */
import type { FC, PropsWithChildren } from 'hono/jsx';

export const Section: FC<PropsWithChildren<{ title: string; about?: string | undefined; id?: string }>> = ({
  title,
  about,
  id,
  children,
}) => (
  <section class="card" id={id}>
    <h2>{title}</h2>
    {about !== undefined && <p class="quiet">{about}</p>}
    {children}
  </section>
);
