/** The frame of all pages of a directory: its name, and the way to the others. */
import type { FC, PropsWithChildren } from 'hono/jsx';
import type { DirectoriesTable } from '../../db/schema.ts';
import { Layout } from './layout.tsx';
import { Tabs } from './tabs.tsx';

function tabsOf(id: string) {
  const path = `/dashboard/directories/${id}`;
  return { Overview: path, Webhook: `${path}/webhook`, Files: `${path}/files`, Activity: `${path}/activity` };
}

interface DirectoryLayoutProps {
  readonly directory: Pick<DirectoriesTable, 'id' | 'name'>;
  readonly tab: keyof ReturnType<typeof tabsOf>;
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
    <Tabs label="Directory" tabs={tabsOf(id)} current={tab} />
    {children}
  </Layout>
);
