/** The account at a glance: uploads, storage, refused logins and failing webhooks; and the first steps until they are done. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { allowsApi } from '../../../rules/accounts/accounts.ts';
import { type Clock, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { Database } from '../../../foundation/db/open.ts';
import { DayChart, type Days, DaysChoice, daysIn } from '../components/day-chart.tsx';
import { FAILING, FailingTable } from './failing-webhooks.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Badge, counted, sizeInWords, Time } from '../components/values.tsx';
import type { DashboardEnv } from '../environment.ts';
import { failingDirectories } from '../queries/failing-webhooks.ts';
import {
  type Begun,
  begunIn,
  type DayOfUploads,
  type Refusals,
  refusalsByDay,
  storageByDay,
  type Stored,
  uploadsByDay,
} from '../queries/overview.ts';

/** After this time the page says that sshd's log is not read. Reading it is recorded every ten minutes, even without new lines. */
const UNREAD_AFTER = 1200 * SECOND;
/** How many directories with failing webhooks are listed. */
const NAMED = 5;

interface OverviewOptions {
  readonly database: Pick<Database, 'reads'>;
  readonly clock: Clock;
  readonly stored: (accountId: string) => Promise<Stored>;
}

export function overviewPage(app: Hono<DashboardEnv>, { database: { reads }, clock, stored }: OverviewOptions): void {
  app.get('/dashboard', async (c) => {
    const { accountId, plan } = c.get('user').principal;
    const span = { now: clock.now(), days: daysIn(c.req.query('days')) };
    const [days, total, held, refusals, failing, begun] = await Promise.all([
      uploadsByDay(reads, accountId, span),
      stored(accountId),
      storageByDay(reads, accountId, span),
      refusalsByDay(reads, accountId, span),
      failingDirectories(reads, accountId, NAMED + 1),
      begunIn(reads, accountId),
    ]);
    const isNew = total.bytes === 0 && !begun.hasUpload && days.every(({ uploads }) => uploads === 0);
    return c.render(
      <Layout
        title="Overview"
        actions={
          !isNew && (
            <a class="button" href="/dashboard/directories/new">
              New directory
            </a>
          )
        }
      >
        {failing.length > 0 && (
          <Section
            title="Failing webhooks"
            about="Receivers rejected these webhooks or didn’t respond. You can replay the deliveries."
          >
            <FailingTable of={failing.slice(0, NAMED)} />
            {failing.length > NAMED && (
              <p>
                <a href={FAILING}>All directories with failing webhooks</a>
              </p>
            )}
          </Section>
        )}
        <FirstSteps begun={begun} needsKey={allowsApi(plan)} />
        {!isNew && (
          <Numbers
            days={days}
            stored={total}
            held={held}
            refusals={refusals}
            span={span}
            isHealthy={failing.length === 0}
          />
        )}
      </Layout>,
    );
  });
}

interface NumbersProps {
  readonly days: readonly DayOfUploads[];
  readonly stored: Stored;
  readonly held: readonly (number | undefined)[];
  readonly refusals: Refusals;
  readonly span: { readonly now: Micros; readonly days: Days };
  readonly isHealthy: boolean;
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

const Numbers: FC<NumbersProps> = ({ days, stored, held, refusals, span, isHealthy }) => {
  const uploads = days.map((day) => day.uploads);
  const bytes = days.map((day) => day.bytes);
  const shown = days.map(({ day }) => day);
  // Today's bar shows the current storage.
  const storage = [...held.slice(0, -1), stored.bytes];
  return (
    <>
      <DaysChoice current={span.days} />
      <div class="cards">
        <Section title="Uploads" about={`Files received in the last ${span.days} days.`}>
          <p class="figure">{counted(sum(uploads))}</p>
          <DayChart title="Uploads per day" days={shown} values={uploads} inWords={counted} />
        </Section>
        <Section title="Data received" about="Total size of those files.">
          <p class="figure">{sizeInWords(sum(bytes))}</p>
          <DayChart title="Data per day" days={shown} values={bytes} inWords={sizeInWords} />
        </Section>
        <Section
          title="Storage"
          about={
            <>
              Used by{' '}
              <a href="/dashboard/directories">
                {counted(stored.directories)} {stored.directories === 1 ? 'directory' : 'directories'}
              </a>
              .
            </>
          }
        >
          <p class="figure">{sizeInWords(stored.bytes)}</p>
          <DayChart title="Storage per day" days={shown} values={storage} inWords={sizeInWords} />
        </Section>
        <RefusedLogins refusals={refusals} shown={shown} span={span} />
        {isHealthy && (
          <Section title="Health">
            <p>
              <Badge kind="good" text="healthy" /> No webhook is failing.
            </p>
          </Section>
        )}
      </div>
    </>
  );
};

interface RefusedLoginsProps extends Pick<NumbersProps, 'refusals' | 'span'> {
  readonly shown: readonly Micros[];
}

const RefusedLogins: FC<RefusedLoginsProps> = ({ refusals: { byDay, knownUntil }, shown, span: { now } }) =>
  knownUntil === undefined ? (
    <Section title="Refused logins">
      <p>Not known yet: berth hasn’t found sshd’s log.</p>
    </Section>
  ) : (
    <Section title="Refused logins" about="Reasons are on each directory’s Login page.">
      <p class="figure">{counted(sum(byDay))}</p>
      {now - knownUntil > UNREAD_AFTER && (
        <p>
          sshd’s log has not been read since <Time at={knownUntil} />.
        </p>
      )}
      <DayChart title="Refused logins per day" days={shown} values={byDay} inWords={counted} />
    </Section>
  );

interface Step {
  readonly isDone: boolean;
  readonly name: string;
  readonly address: string;
  readonly about: string;
}

/** The first steps, until all are done. */
const FirstSteps: FC<{ begun: Begun; needsKey: boolean }> = ({ begun, needsKey }) => {
  const { newest } = begun;
  const page = newest === undefined ? '/dashboard/directories' : `/dashboard/directories/${newest.id}`;
  const steps: Step[] = [
    {
      isDone: newest !== undefined,
      name: 'Create a directory',
      address: '/dashboard/directories/new',
      about: 'Each directory has its own SFTP login and is invisible to the others.',
    },
    {
      isDone: begun.hasUpload,
      name: 'Log in and upload a file',
      address: newest ? `${page}/access` : page,
      about: 'The directory’s Connect page has commands for common clients.',
    },
    {
      isDone: begun.isDelivered,
      name: 'Set a webhook and receive a delivery',
      address: newest ? `${page}/webhook` : page,
      about: 'berth notifies your server of each file as soon as it is complete.',
    },
  ];
  if (needsKey)
    steps.unshift({
      isDone: begun.hasKey,
      name: 'Create an API key',
      address: '/dashboard/api-keys',
      about: 'Your programs use it to create directories and fetch files.',
    });
  if (steps.every(({ isDone }) => isDone)) return <></>;
  return (
    <Section
      title="First steps"
      about={begun.hasUpload ? undefined : 'Your uploads and storage appear here once files arrive.'}
    >
      <ol class="steps">
        {steps.map(({ isDone, name, address, about }) => (
          <li class={isDone ? 'done good' : undefined}>
            {isDone ? name : <a href={address}>{name}</a>} {isDone && <Badge kind="good" text="Done" />}
            <p class="quiet">{about}</p>
          </li>
        ))}
      </ol>
    </Section>
  );
};
