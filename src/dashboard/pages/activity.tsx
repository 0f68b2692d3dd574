/** What happened to a directory, newest first, and who is connected now. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { DAY } from '../../clock.ts';
import { endSession, type EndSessionDependencies, type LiveSession } from '../../directories/end-session.ts';
import { type ActivityPage, createActivity, type Place, type Topic, TOPICS } from '../../reports/activity.ts';
import type { LoginLog } from '../../reports/login-log.ts';
import { ActionButton } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { clipped, Text } from '../components/text.tsx';
import { Badge, Time } from '../components/values.tsx';
import { type DashboardEnv, targetOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';

const PAGE = 100;

const DONE = { ended: 'The session has ended. Its client may connect again.' };

/** Characters of one line: two whole names, and what was done with them. */
const MOST = 600;

export function activityPage(app: Hono<DashboardEnv>, deps: EndSessionDependencies & { logins: LoginLog }): void {
  const { database, clock, sessions } = deps;
  const activity = createActivity(database.reads, deps.logins);

  app.get('/dashboard/directories/:id/activity', async (c) => {
    const directory = c.get('directory');
    const topic = topicIn(c.req.query('topic'));
    const before = placeIn(c.req.query('before'));
    // Ahead of now, should the clock have been set back.
    const from = before ?? { at: clock.now() + DAY, skip: 0 };
    const page = await activity({ directory, topic, from, limit: PAGE });
    const address = (next: Place | undefined): string =>
      `?${new URLSearchParams({ ...(topic && { topic }), ...(next && { before: `${next.at}.${next.skip}` }) }).toString()}`;
    return c.render(
      <DirectoryLayout tab="Activity" done={DONE}>
        <Section title="Live sessions">
          <Sessions sessions={sessions.of(directory.sftp_username)} mayEnd={c.get('user').principal.role === 'admin'} />
        </Section>
        <Section title="History">
          <Links class="tabs" label="Topics" links={TABS} current={topic ? capitalized(topic) : 'All'} />
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
const TABS = { All: '?', ...Object.fromEntries(TOPIC_NAMES.map((each) => [capitalized(each), `?topic=${each}`])) };

function topicIn(text: string | undefined): Topic | undefined {
  return TOPIC_NAMES.find((each) => each === text);
}

function placeIn(text: string | undefined): Place | undefined {
  const [, at, skip] = /^(\d{1,16})\.(\d{1,4})$/.exec(text ?? '') ?? [];
  return at === undefined ? undefined : { at: Number(at), skip: Number(skip) };
}

const Sessions: FC<{ sessions: readonly LiveSession[]; mayEnd: boolean }> = ({ sessions, mayEnd }) => (
  <Table
    caption="Who is connected now"
    columns={['Since', 'Address', ...(mayEnd ? ['Actions'] : [])]}
    rows={sessions.map(({ name, address, since }) => [
      <Time at={since} />,
      address,
      ...(mayEnd ? [<End session={name} />] : []),
    ])}
  >
    <p class="quiet">Nobody is connected.</p>
  </Table>
);

const End: FC<{ session: string }> = ({ session }) => (
  <ActionButton
    action="activity/end-session"
    label="End"
    kind="danger"
    fields={{ session }}
    confirm="End this session? Transfers that are under way are cut off."
  />
);

const History: FC<{ page: ActivityPage }> = ({ page: { happenings, missing } }) => {
  const why = missing === 'no journal' ? 'is in no journal here' : 'could not be read just now';
  return (
    <>
      {missing !== undefined && <p class="quiet">Refused logins are missing: sshd’s log {why}.</p>}
      <Table
        caption="Newest first"
        columns={['When', 'What', 'Address', 'Details']}
        rows={happenings.map(({ at, kind, address, text }) => [
          <Time at={at} />,
          kind === 'refused' ? <Badge kind="bad" text={kind} /> : kind,
          address,
          <Text of={clipped(text, MOST)} />,
        ])}
      >
        <Empty title="Nothing yet">Logins, files, webhooks and changes of this directory are listed here.</Empty>
      </Table>
    </>
  );
};
