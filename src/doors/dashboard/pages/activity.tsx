/** A directory's history, newest first, and its live connections. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { DAY } from '../../../foundation/base/clock.ts';
import { endSession, type EndSessionOptions, type LiveSession } from '../../../rules/directories/end-session.ts';
import {
  type ActivityPage,
  activityPage as pageFrom,
  type ActivityPlace,
  type Topic,
  TOPICS,
} from '../../../operating/reports/activity.ts';
import type { LoginLog } from '../../../operating/reports/login-log.ts';
import { ActionButton } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { Badge, Time } from '../components/values.tsx';
import { csvAnswer, timeCell } from '../csv.ts';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { type Live, renderedIn } from '../live.tsx';

const PAGE = 100;
/** Entries that are read at once for an export. */
const CSV_BATCH = 100;
/** How often the page looks for changes that nothing reports. */
const POLL_MS = 5000;

const DONE = { ended: 'The session has ended. Its client may connect again.' };

/** How many characters of an entry are shown: enough for two whole names, and what was done with them. */
const TEXT_LENGTH = 600;

export function activityPage(
  app: Hono<DashboardEnv>,
  options: EndSessionOptions & { logins: LoginLog; live: Live },
): void {
  const { database, clock, sessions, logins } = options;

  function activity(c: PageContext, topic: Topic | undefined, at: ActivityPlace, limit: number): Promise<ActivityPage> {
    const { id, sftp_username } = c.get('directory');
    const unwritten = logins.unwritten(sftp_username) ?? [];
    return pageFrom(database.reads, { directoryId: id, unwritten, topic, from: at, limit });
  }

  const isLogRead = (c: PageContext): boolean => logins.unwritten(c.get('directory').sftp_username) !== undefined;

  const from = (place: ActivityPlace | undefined): ActivityPlace => place ?? { at: clock.now() + DAY, skip: 0 };

  /** Without a place in the URL, the page begins with the newest entry: a day from now, in case the clock was set back. */
  function pageOf(c: PageContext): Promise<ActivityPage> {
    const topic = topicIn(c.req.query('topic'));
    return activity(c, topic, from(placeIn(c.req.query('before'))), PAGE);
  }

  app.get('/dashboard/directories/:id/activity/events', async (c) =>
    options.live(c, { directoryId: c.get('directory').id, everyMs: POLL_MS }, async () =>
      renderedIn(c, <History page={await pageOf(c)} isLogRead={isLogRead(c)} />),
    ),
  );

  app.get('/dashboard/directories/:id/activity/export.csv', (c) =>
    csvAnswer('activity', ['at', 'kind', 'address', 'text'], csvRows(c)),
  );

  async function* csvRows(c: PageContext) {
    for (let next: ActivityPlace | undefined = from(undefined); next;) {
      const page: ActivityPage = await activity(c, undefined, next, CSV_BATCH);
      for (const { at, kind, address, text } of page.happenings) yield [timeCell(at), kind, address, text];
      next = page.next;
    }
  }

  app.get('/dashboard/directories/:id/activity', async (c) => {
    const directory = c.get('directory');
    const topic = topicIn(c.req.query('topic'));
    const before = placeIn(c.req.query('before'));
    const page = await pageOf(c);
    const address = (next: ActivityPlace | undefined): string =>
      `?${new URLSearchParams({ ...(topic && { topic }), ...(next && { before: `${next.at}.${next.skip}` }) }).toString()}`;
    return c.render(
      <DirectoryLayout tab="Activity" done={DONE}>
        <Section title="Connected now">
          <Sessions sessions={sessions.of(directory.sftp_username)} mayEnd={c.get('user').principal.role === 'admin'} />
        </Section>
        <Section title="History">
          <Links class="views" label="Topics" links={TABS} current={topic ? capitalized(topic) : 'All'} />
          <div data-live={`${c.req.path}/events${new URL(c.req.url).search}`}>
            <History page={page} isLogRead={isLogRead(c)} />
          </div>
          <a href={`${c.req.path}/export.csv`}>Export as CSV</a>
          <Pager of="the history" first={before && address(undefined)} next={page.next && address(page.next)} />
        </Section>
      </DirectoryLayout>,
    );
  });

  app.post('/dashboard/directories/:id/activity/end-session', adminOnly, async (c) => {
    const id = c.req.param('id');
    const { session = '' } = await formFields(c);
    await endSession(options, targetOf(c, id), session);
    return c.redirect(`/dashboard/directories/${id}/activity?done=ended`, 303);
  });
}

const TOPIC_NAMES = Object.keys(TOPICS) as Topic[];
const TABS = { All: '?', ...Object.fromEntries(TOPIC_NAMES.map((each) => [capitalized(each), `?topic=${each}`])) };

function topicIn(text: string | undefined): Topic | undefined {
  return TOPIC_NAMES.find((each) => each === text);
}

function placeIn(text: string | undefined): ActivityPlace | undefined {
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
    confirm="Transfers that are under way are cut off. The client may connect again."
    about="session"
  />
);

const History: FC<{ page: ActivityPage; isLogRead: boolean }> = ({ page: { happenings }, isLogRead }) => {
  return (
    <>
      {!isLogRead && <p class="quiet">The latest logins are missing: berth hasn’t found sshd’s log.</p>}
      <Table
        caption="Newest first"
        columns={['When', 'What', 'Address', 'Details']}
        rows={happenings.map(({ at, kind, address, text }) => [
          <Time at={at} />,
          kind === 'refused' ? <Badge kind="bad" text={kind} /> : kind,
          address,
          <Text of={text} most={TEXT_LENGTH} />,
        ])}
      >
        <Empty title="Nothing yet">Logins, files, webhooks and changes of this directory appear here.</Empty>
      </Table>
    </>
  );
};
