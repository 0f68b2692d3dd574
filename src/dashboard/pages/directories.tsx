/** All directories of the account. */
import type { Hono } from 'hono';
import type { CreateDependencies } from '../../directories/create.ts';
import { directoryQueries } from '../../directories/view.ts';
import { Layout } from '../components/layout.tsx';
import { Text } from '../components/text.tsx';
import { Size } from '../components/values.tsx';
import type { DashboardEnv } from '../environment.ts';

const PAGE = 50;

export function directoriesPage(app: Hono<DashboardEnv>, rules: CreateDependencies): void {
  const queries = directoryQueries(rules.database.reads);
  app.get('/dashboard/directories', async (c) => {
    const { accountId } = c.get('user').principal;
    const directories = await queries.list(accountId, { limit: PAGE });
    return c.render(
      <Layout title="Directories">
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th>Username</th>
              <th>Storage</th>
            </tr>
          </thead>
          <tbody>
            {directories.map(({ id, name, sftp_username, storage_bytes }) => (
              <tr>
                <td>
                  <a href={`/dashboard/directories/${id}`}>
                    <Text of={name} />
                  </a>
                </td>
                <td>
                  <code>{sftp_username}</code>
                </td>
                <td>
                  <Size bytes={storage_bytes} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Layout>,
    );
  });
}
