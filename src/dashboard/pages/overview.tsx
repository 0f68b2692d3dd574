/** How the account is doing: what came in, what is stored, whose webhooks fail. For those who begin, what to do first. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { type Clock, formatMicros } from '../../clock.ts';
import type { Database } from '../../db/open.ts';
import { BarChart } from '../components/chart.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Badge, sizeInWords, Time } from '../components/values.tsx';
import type { DashboardEnv } from '../environment.ts';
import { type FailingDirectory, failingDirectories } from '../queries/failing-webhooks.ts';
import { type DayOfUploads, newestDirectory, type Stored, storedIn, uploadsByDay } from '../queries/overview.ts';

const DAYS = 30;
/** Directories with failing webhooks that are named. */
const NAMED = 5;

export function overviewPage(app: Hono<DashboardEnv>, { database: { reads }, clock }: OverviewDependencies): void {
  app.get('/dashboard', async (c) => {
    const { accountId } = c.get('user').principal;
    const [days, stored, failing, newest] = await Promise.all([
      uploadsByDay(reads, accountId, { now: clock.now(), days: DAYS }),
      storedIn(reads, accountId),
      failingDirectories(reads, accountId, NAMED + 1),
      newestDirectory(reads, accountId),
    ]);
    const isNew = stored.bytes === 0 && days.every(({ uploads }) => uploads === 0);
    return c.render(
      <Layout title="Overview">
        {failing.length > 0 && <FailingWebhooks failing={failing} />}
        {isNew ? (
          <FirstSteps newest={newest} />
        ) : (
          <Numbers days={days} stored={stored} hasFailing={failing.length > 0} />
        )}
      </Layout>,
    );
  });
}

interface OverviewDependencies {
  readonly database: Pick<Database, 'reads'>;
  readonly clock: Clock;
}

const FailingWebhooks: FC<{ failing: readonly FailingDirectory[] }> = ({ failing }) => (
  <Section title="Failing webhooks" about="Their receivers refused or did not answer. Deliveries can be replayed.">
    <div class="scroll" tabindex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Directory</th>
            <th scope="col" class="number">
              Failed deliveries
            </th>
            <th scope="col">Since</th>
          </tr>
        </thead>
        <tbody>
          {failing.slice(0, NAMED).map(({ id, name, failed, since }) => (
            <tr>
              <td>
                <a href={`/dashboard/directories/${id}/webhook`}>
                  <Text of={name} />
                </a>
              </td>
              <td class="number">{failed}</td>
              <td>
                <Time at={since} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    {failing.length > NAMED && (
      <p>
        <a href="/dashboard/directories">And more, in the list of directories</a>
      </p>
    )}
  </Section>
);

const Numbers: FC<{ days: readonly DayOfUploads[]; stored: Stored; hasFailing: boolean }> = ({
  days,
  stored,
  hasFailing,
}) => {
  const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
  const named = days.map((day) => ({ ...day, name: formatMicros(day.day).slice(0, 10) }));
  const counted = (count: number): string => count.toLocaleString('en');
  return (
    <div class="cards">
      <Section title="Uploads" about={`Files received in the last ${DAYS} days, by day in UTC.`}>
        <p class="figure">{counted(sum(days.map(({ uploads }) => uploads)))}</p>
        <BarChart
          title="Uploads per day"
          of="Day"
          bars={named.map(({ name, uploads }) => ({ name, value: uploads, text: counted(uploads) }))}
        />
      </Section>
      <Section title="Data received" about={`Bytes in those files, by day in UTC.`}>
        <p class="figure">{sizeInWords(sum(days.map(({ bytes }) => bytes)))}</p>
        <BarChart
          title="Data per day"
          of="Day"
          bars={named.map(({ name, bytes }) => ({ name, value: bytes, text: sizeInWords(bytes) }))}
        />
      </Section>
      <Section title="Storage">
        <p class="figure">{sizeInWords(stored.bytes)}</p>
        <p>
          in{' '}
          <a href="/dashboard/directories">
            {counted(stored.directories)} {stored.directories === 1 ? 'directory' : 'directories'}
          </a>
        </p>
      </Section>
      <Section title="Health">
        <p>{hasFailing ? 'Some webhooks fail: see above.' : 'No webhook is failing.'}</p>
        <p class="quiet">Refused logins, with their reasons, are on the Activity page of each directory.</p>
      </Section>
    </div>
  );
};

const FirstSteps: FC<{ newest: { id: string; webhook_url: string | null } | undefined }> = ({ newest }) => {
  const page = newest === undefined ? '/dashboard/directories' : `/dashboard/directories/${newest.id}`;
  return (
    <Section title="First steps" about="This page shows what comes in, once something has.">
      <ol class="steps">
        <li>
          <a href="/dashboard/directories">Create a directory</a> {newest && <Badge kind="good" text="Done" />}
          <p class="quiet">Each has its own SFTP login, and sees nothing of the others.</p>
        </li>
        <li>
          <a href={page}>Log in and upload a file</a>
          <p class="quiet">The directory's page has the commands for common clients.</p>
        </li>
        <li>
          <a href={newest ? `${page}/webhook` : page}>Set a webhook</a>{' '}
          {newest?.webhook_url && <Badge kind="good" text="Done" />}
          <p class="quiet">berth tells your server of each file as soon as it is complete.</p>
        </li>
      </ol>
    </Section>
  );
};
