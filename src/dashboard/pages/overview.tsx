/** How the account is doing: what came in, what is stored, who was refused, whose webhooks fail. For those who begin, what to do first. */
import type { Hono } from 'hono';
import type { FC, PropsWithChildren } from 'hono/jsx';
import { type Clock, formatMicros, type Micros, SECOND } from '../../clock.ts';
import type { Database } from '../../db/open.ts';
import { BarChart } from '../components/chart.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Badge, sizeInWords, Time } from '../components/values.tsx';
import type { DashboardEnv } from '../environment.ts';
import { type FailingDirectory, failingDirectories } from '../queries/failing-webhooks.ts';
import {
  type DayOfUploads,
  newestDirectory,
  type Refusals,
  refusalsByDay,
  storageByDay,
  type Stored,
  storedIn,
  uploadsByDay,
} from '../queries/overview.ts';

const DAYS = 30;
/** After how long it is said that sshd's log is not read: a quiet one is noted each ten minutes. */
const UNREAD = 1200 * SECOND;
/** Directories with failing webhooks that are named. */
const NAMED = 5;

export function overviewPage(app: Hono<DashboardEnv>, { database: { reads }, clock }: OverviewDependencies): void {
  app.get('/dashboard', async (c) => {
    const { accountId } = c.get('user').principal;
    const span = { now: clock.now(), days: DAYS };
    const [days, stored, held, refusals, failing, newest] = await Promise.all([
      uploadsByDay(reads, accountId, span),
      storedIn(reads, accountId),
      storageByDay(reads, accountId, span),
      refusalsByDay(reads, accountId, span),
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
          <Numbers days={days} stored={stored} held={held} hasFailing={failing.length > 0}>
            <RefusedLogins refusals={refusals} days={days} now={span.now} />
          </Numbers>
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

interface NumbersProps {
  readonly days: readonly DayOfUploads[];
  readonly stored: Stored;
  readonly held: readonly (number | undefined)[];
  readonly hasFailing: boolean;
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const counted = (count: number): string => count.toLocaleString('en');

const Numbers: FC<PropsWithChildren<NumbersProps>> = ({ days, stored, held, hasFailing, children }) => {
  const [uploads, bytes] = [days.map((day) => day.uploads), days.map((day) => day.bytes)];
  // Of today, what is there now.
  const storage = [...held.slice(0, -1), stored.bytes];
  return (
    <div class="cards">
      <Section title="Uploads" about={`Files received in the last ${DAYS} days, by day in UTC.`}>
        <p class="figure">{counted(sum(uploads))}</p>
        <DayChart title="Uploads per day" days={days} values={uploads} inWords={counted} />
      </Section>
      <Section title="Data received" about={`Bytes in those files, by day in UTC.`}>
        <p class="figure">{sizeInWords(sum(bytes))}</p>
        <DayChart title="Data per day" days={days} values={bytes} inWords={sizeInWords} />
      </Section>
      <Section title="Storage">
        <p class="figure">{sizeInWords(stored.bytes)}</p>
        <p>
          in{' '}
          <a href="/dashboard/directories">
            {counted(stored.directories)} {stored.directories === 1 ? 'directory' : 'directories'}
          </a>
        </p>
        <DayChart title="Storage per day" days={days} values={storage} inWords={sizeInWords} />
      </Section>
      {children}
      <Section title="Health">
        <p>{hasFailing ? 'Some webhooks fail: see above.' : 'No webhook is failing.'}</p>
        <p class="quiet">Refused logins, with their reasons, are on the Activity page of each directory.</p>
      </Section>
    </div>
  );
};

interface RefusedLoginsProps {
  readonly refusals: Refusals;
  readonly days: readonly DayOfUploads[];
  readonly now: Micros;
}

const RefusedLogins: FC<RefusedLoginsProps> = ({ refusals: { byDay, knownUntil }, days, now }) =>
  knownUntil === undefined ? (
    <Section title="Refused logins">
      <p>Not known: sshd’s log is in no journal here.</p>
    </Section>
  ) : (
    <Section title="Refused logins" about={`In the last ${DAYS} days, by day in UTC.`}>
      <p class="figure">{counted(sum(byDay))}</p>
      {now - knownUntil > UNREAD && (
        <p>
          sshd’s log has not been read since <Time at={knownUntil} />.
        </p>
      )}
      <DayChart title="Refused logins per day" days={days} values={byDay} inWords={counted} />
    </Section>
  );

interface DayChartProps {
  readonly title: string;
  readonly days: readonly DayOfUploads[];
  /** Of each day; undefined where nothing is known. */
  readonly values: readonly (number | undefined)[];
  inWords(value: number): string;
}

const DayChart: FC<DayChartProps> = ({ title, days, values, inWords }) => {
  const bars = days.map(({ day }, index) => {
    const value = values[index];
    const text = value === undefined ? 'not known' : inWords(value);
    return { name: formatMicros(day).slice(0, 10), value: value ?? 0, text };
  });
  return <BarChart title={title} of="Day" bars={bars} />;
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
