/** Sections of pages, and links between pages. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';

interface SectionProps {
  readonly title: string;
  /** A sentence about the section. */
  readonly about?: Child | undefined;
  /** The id for links to the section. */
  readonly id?: string;
}

export const Section: FC<PropsWithChildren<SectionProps>> = ({ title, about, id, children }) => (
  <section class="card" id={id}>
    <h2>{title}</h2>
    {about !== undefined && <p class="quiet">{about}</p>}
    {children}
  </section>
);

/** Folded texts, of which one is open at a time. `name` is unique on the page. */
export const Folds: FC<{ name: string; of: Readonly<Record<string, Child>> }> = ({ name, of }) => (
  <>
    {Object.entries(of).map(([summary, text], index) => (
      <details name={name} open={index === 0}>
        <summary>{summary}</summary>
        {text}
      </details>
    ))}
  </>
);

/** Replaces an empty list: says that it is empty, and what to do next. */
export const Empty: FC<PropsWithChildren<{ title: string }>> = ({ title, children }) => (
  <div class="empty">
    <p>
      <strong>{title}</strong>
    </p>
    {children && <p>{children}</p>}
  </div>
);

interface LinksProps {
  readonly label: string;
  /** URLs by name. */
  readonly links: Readonly<Record<string, string>>;
  readonly current: string | undefined;
  readonly class?: 'tabs' | 'views';
}

export const Links: FC<LinksProps> = ({ label, links, current, class: className }) => (
  <nav class={className} aria-label={label}>
    <ul>
      {Object.entries(links).map(([name, address]) => (
        <li>
          <a href={address} aria-current={name === current ? 'page' : undefined}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  </nav>
);

/** The name of a tab: `failed` becomes `Failed`. */
export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

interface PagerProps {
  /** What is listed, such as `directories`. */
  readonly of: string;
  /** URLs; undefined if there is no such page. */
  readonly first?: string | undefined;
  readonly previous?: string | undefined;
  readonly next?: string | undefined;
}

/** Links between the pages of a long list. Pages have no numbers, since each only knows where the next one begins. */
export const Pager: FC<PagerProps> = ({ of, first, previous, next }) => {
  const links = { 'First page': first, Previous: previous, Next: next };
  const known = Object.entries(links).filter(([, address]) => address !== undefined);
  if (known.length === 0) return <></>;
  return (
    <nav class="pager" aria-label={`Pages of ${of}`}>
      {known.map(([name, address]) => (
        <a class="button" href={address}>
          {name}
        </a>
      ))}
    </nav>
  );
};
