/** The frame of all pages of a directory: its name, and the way to the others. */
import type { FC, PropsWithChildren } from 'hono/jsx';
import type { DirectoriesTable } from '../../db/schema.ts';
import { Layout } from './layout.tsx';

const TABS = { Overview: '', Webhook: '/webhook', Files: '/files', Activity: '/activity' } as const;

interface DirectoryLayoutProps {
  readonly directory: Pick<DirectoriesTable, 'id' | 'name'>;
  readonly tab: keyof typeof TABS;
  readonly notice?: string | undefined;
  readonly problem?: string | undefined;
}

export const DirectoryLayout: FC<PropsWithChildren<DirectoryLayoutProps>> = ({
  directory: { id, name },
  tab,
  notice,
  problem,
  children,
}) => (
  <Layout title={tab === 'Overview' ? name : `${name}: ${tab}`} notice={notice} problem={problem}>
    <nav class="tabs" aria-label="Directory">
      <ul>
        {Object.entries(TABS).map(([text, path]) => (
          <li>
            <a href={`/dashboard/directories/${id}${path}`} aria-current={text === tab ? 'page' : undefined}>
              {text}
            </a>
          </li>
        ))}
      </ul>
    </nav>
    {children}
  </Layout>
);
