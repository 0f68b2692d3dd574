/** Links to the other views of the same thing. */
import type { FC } from 'hono/jsx';

/** `tabs`: where each leads. */
export const Tabs: FC<{ label: string; tabs: Readonly<Record<string, string>>; current: string | undefined }> = ({
  label,
  tabs,
  current,
}) => (
  <nav class="tabs" aria-label={label}>
    <ul>
      {Object.entries(tabs).map(([name, address]) => (
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
