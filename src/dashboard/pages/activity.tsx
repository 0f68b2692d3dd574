/** What happened to a directory, newest first, and who is connected now. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { DAY } from '../../clock.ts';
import { endSession, type EndSessionDependencies, type LiveSession } from '../../directories/end-session.ts';
import { liveDirectory } from '../../directories/target.ts';
import { type ActivityPage, createActivity, type Place, type Topic, TOPICS } from '../../reports/activity.ts';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { Empty } from '../components/empty.tsx';
import { ActionButton } from '../components/form.tsx';
import { Pager } from '../components/pager.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Badge, Time } from '../components/values.tsx';
import { type DashboardEnv, targetOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';

const PAGE = 100;

/** Characters of one line: two whole names, and what was done with them. */
const MOST = 600;

export function activityPage(app: Hono<DashboardEnv>, deps: EndSessionDependencies): void {
  const { database, clock, sessions } = deps;
  const activity = createActivity(database.reads);

  app.get('/dashboard/directories/:id/activity', async (c) => {
    const directory = await liveDirectory(database.reads, targetOf(c, c.req.param('id')));
    const topic = topicIn(c.req.query('topic'));
    const before = placeIn(c.req.query('before'));
    // Ahead of now, should the clock have been set back.
    const from = before ?? { at: clock.now() + DAY, skip: 0 };
    const page = await activity({ directory, topic, from, limit: PAGE });
    const address = (next: Place | undefined): string =>
      `?${new URLSearchParams({ ...(topic && { topic }), ...(next && { before: `${next.at}.${next.skip}` }) }).toString()}`;
    const isEnded = c.req.query('done') === 'ended';
    return c.render(
      <DirectoryLayout
        directory={directory}
        tab="Activity"
        notice={isEnded ? 'The session has ended. Its client may connect again.' : undefined}
      >
        <Section title="Live sessions">
          <Sessions sessions={sessions.of(directory.sftp_username)} mayEnd={c.get('user').principal.role === 'admin'} />
        </Section>
        <Section title="History">
          <nav class="pager" aria-label="What is shown">
            {[undefined, ...TOPIC_NAMES].map((each) => (
              <a
                class="button"
                href={`?${each ? `topic=${each}` : ''}`}
                aria-current={each === topic ? 'page' : undefined}
              >
                {each ? `${each.slice(0, 1).toUpperCase()}${each.slice(1)}` : 'All'}
              </a>
            ))}
          </nav>
          <History page={page} />
          <Pager of="the history" first={before && address(undefined)} next={page.next && address(page.next)} />
        </Section>
      </DirectoryLayout>,
    );
  });

  app.post('/dashboard/directories/:id/activity/end-session', adminOnly, async (c) => {
    const id = c.req.param('id');
    const { session = '' } = await formFields(c);
    await endSession(deps, targetOf(c, id), session);
    return c.redirect(`/dashboard/directories/${id}/activity?done=ended`, 303);
  });
}

const TOPIC_NAMES = Object.keys(TOPICS) as Topic[];

function topicIn(text: string | undefined): Topic | undefined {
  return TOPIC_NAMES.find((each) => each === text);
}

function placeIn(text: string | undefined): Place | undefined {
  const [, at, skip] = /^(\d{1,16})\.(\d{1,4})$/.exec(text ?? '') ?? [];
  return at === undefined ? undefined : { at: Number(at), skip: Number(skip) };
}

const Sessions: FC<{ sessions: readonly LiveSession[]; mayEnd: boolean }> = ({ sessions, mayEnd }) => {
  if (sessions.length === 0) return <p class="quiet">Nobody is connected.</p>;
  return (
    <div class="scroll">
      <table aria-label="Live sessions">
        <thead>
          <tr>
            <th scope="col">Since</th>
            <th scope="col">Address</th>
            {mayEnd && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {sessions.map(({ name, address, since }) => (
            <tr>
              <td>
                <Time at={since} />
              </td>
              <td>
                <Text of={address} />
              </td>
              {mayEnd && (
                <td>
                  <ActionButton
                    action="activity/end-session"
                    label="End"
                    kind="danger"
                    fields={{ session: name }}
                    confirm="End this session? Transfers that are under way are cut off."
                  />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};

const History: FC<{ page: ActivityPage }> = ({ page: { happenings, missing } }) => (
  <>
    {missing !== undefined && (
      <p class="quiet">
        {missing === 'no journal'
          ? 'Refused logins are missing: sshd’s log is in no journal here.'
          : 'Refused logins are missing: sshd’s log could not be read just now.'}
      </p>
    )}
    {happenings.length === 0 ? (
      <Empty title="Nothing here yet">
        <p>Logins, files, webhooks and changes of this directory will be listed here.</p>
      </Empty>
    ) : (
      <div class="scroll">
        <table aria-label="History">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">What</th>
              <th scope="col">Address</th>
              <th scope="col">Details</th>
            </tr>
          </thead>
          <tbody>
            {happenings.map(({ at, kind, address, text }) => (
              <tr>
                <td>
                  <Time at={at} />
                </td>
                <td>{kind === 'refused' ? <Badge kind="bad" text={kind} /> : kind}</td>
                <td>{address}</td>
                <td>
                  <Text of={text.length > MOST ? `${text.slice(0, MOST).toWellFormed()}…` : text} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    )}
  </>
);
