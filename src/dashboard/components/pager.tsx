/** The way through a long list: each page knows where the next begins, and none is counted. */
import type { FC } from 'hono/jsx';

interface PagerProps {
  /** What is listed: `directories`. */
  readonly of: string;
  /** Addresses; undefined where there is nothing more. */
  readonly first?: string | undefined;
  readonly previous?: string | undefined;
  readonly next?: string | undefined;
}

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
