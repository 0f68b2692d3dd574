/** Ways to other pages. */
import type { FC } from 'hono/jsx';

interface LinksProps {
  readonly label: string;
  /** Where each leads. */
  readonly links: Readonly<Record<string, string>>;
  readonly current: string | undefined;
  readonly class?: 'tabs';
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

/** As a tab is called: `failed` becomes `Failed`. */
export function capitalized(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

interface PagerProps {
  /** What is listed: `directories`. */
  readonly of: string;
  /** Addresses; undefined where there is nothing more. */
  readonly first?: string | undefined;
  readonly previous?: string | undefined;
  readonly next?: string | undefined;
}

/** The way through a long list: each page knows where the next begins, and none is counted. */
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
