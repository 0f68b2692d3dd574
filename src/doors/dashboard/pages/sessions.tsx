/** The live sessions of all directories of the account, with a button that ends one. */
import type { Hono } from 'hono';
import { endSession, type EndSessionOptions } from '../../../rules/directories/end-session.ts';
import { ActionButton } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { Time } from '../components/values.tsx';
import { type DashboardEnv, isAdmin, type PageContext, targetOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { type Live, renderedIn } from '../live.tsx';
import { directoriesOfUsers } from '../queries/account.ts';

const PATH = '/dashboard/sessions';
const DONE = { ended: 'The session has ended. Its client may connect again.' };
/** How many sessions are listed, the newest ones. */
const MOST_LISTED = 500;
/** How often the page looks for changes. */
const POLL_MS = 4000;

export function sessionsPage(app: Hono<DashboardEnv>, options: EndSessionOptions & { readonly live: Live }): void {
  const { database, sessions, live } = options;

  async function listOf(c: PageContext) {
    const { accountId } = c.get('user').principal;
    const directories = await directoriesOfUsers(database.reads, accountId, sessions.usernames());
    const all = directories
      .flatMap(({ id, name, sftp_username }) => sessions.of(sftp_username).map((session) => ({ id, name, session })))
      .toSorted((a, b) => b.session.since - a.session.since)
      .slice(0, MOST_LISTED);
    const mayEnd = isAdmin(c);
    return (
      <Table
        caption="Who is connected now, newest first"
        columns={['Directory', 'Address', 'Connected', ...(mayEnd ? ['Actions'] : [])]}
        rows={all.map(({ id, name, session }) => [
          <Name of={name} href={`/dashboard/directories/${id}/activity`} />,
          session.address,
          <Time at={session.since} />,
          ...(mayEnd
            ? [
                <ActionButton
                  action={`${PATH}/end`}
                  label="End"
                  kind="danger"
                  about={`session of ${name}`}
                  fields={{ directory: id, session: session.name }}
                  confirm="Transfers that are under way are cut off. The client may connect again."
                />,
              ]
            : []),
        ])}
      >
        <Empty title="Nobody is connected">SFTP sessions appear here while they last.</Empty>
      </Table>
    );
  }

  app.get(PATH, async (c) =>
    c.render(
      <Layout title="SFTP sessions" done={DONE}>
        <div data-live={`${PATH}/events`}>{await listOf(c)}</div>
      </Layout>,
    ),
  );

  app.get(`${PATH}/events`, (c) => live(c, { everyMs: POLL_MS }, async () => renderedIn(c, await listOf(c))));

  app.post(`${PATH}/end`, adminOnly, async (c) => {
    const { directory = '', session = '' } = await formFields(c);
    await endSession(options, targetOf(c, directory), session);
    return c.redirect(`${PATH}?done=ended`, 303);
  });
}
