/** What needs attention, the account in figures, and its last files; and the first steps until they are done. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { Kysely } from 'kysely';
import type { Child, FC } from 'hono/jsx';
import { allowsApi } from '../../../rules/accounts/accounts.ts';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { DayChart, type Days, DaysChoice, daysIn } from '../components/day-chart.tsx';
import { Cause } from '../components/exchange.tsx';
import { ActionButton } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Name, Text } from '../components/text.tsx';
import { Badge, counted, sizeInWords, Time } from '../components/values.tsx';
import type { DashboardEnv } from '../environment.ts';
import { type LatestUpload, latestUploads } from '../../../operating/reports/activity.ts';
import { type LoginProblem, loginProblems } from '../../../operating/reports/failed-logins.ts';
import { directoriesOfUsers, namesOf, type Stored } from '../../../rules/directories/view.ts';
import {
  type DayOfUploads,
  type Refusals,
  refusalsByDay,
  storageByDay,
  uploadsByDay,
} from '../../../rules/history/daily-totals.ts';
import { COUNTED, type Problem, problemsOf } from '../../../deliveries/webhooks/health.ts';
import { deliveriesOf, DIRECTORIES } from '../directories-view.ts';
import { maySend } from '../limits.ts';
import { SEND_AGAIN } from './account-deliveries.tsx';
import { ACTIVITY } from './activity.tsx';

/** After this time the page says that sshd's log is not read. Reading it is recorded every ten minutes, even without new lines. */
const UNREAD_AFTER = 1200 * SECOND;
/** How many failing webhooks, problems with logins, and files are listed. */
const MOST_WEBHOOKS = 25;
const MOST_LOGINS = 10;
const MOST_FILES = 8;
/** The newest uploads are searched for among this many entries of the history. */
const AMONG = 500;
/** How many characters of a name are shown. */
const NAME_LENGTH = 100;
/** Over how many days the growth of the storage is shown. */
const GROWTH_DAYS = 7;

export function homePage(
  app: Hono<DashboardEnv>,
  { database: { reads }, clock, sessions }: AppContext,
  stored: (accountId: string) => Promise<Stored>,
): void {
  app.get('/dashboard', async (c) => {
    const { accountId, plan } = c.get('user').principal;
    const now = clock.now();
    const span = { now, days: daysIn(c.req.query('days')) };
    // Twice as many days, for the comparison with those before.
    const [days, total, held, refusals, webhooks, logins, begun, files, connected] = await Promise.all([
      uploadsByDay(reads, accountId, { now, days: 2 * span.days }),
      stored(accountId),
      storageByDay(reads, accountId, { now, days: GROWTH_DAYS + 1 }),
      refusalsByDay(reads, accountId, span),
      problemsOf(reads, { accountId }, MOST_WEBHOOKS + 1),
      loginProblems(reads, accountId, { now, limit: MOST_LOGINS }),
      begunIn(reads, accountId),
      latestUploads(reads, accountId, { among: AMONG, limit: MOST_FILES }),
      directoriesOfUsers(reads, accountId, sessions.usernames()),
    ]);
    const names = await namesOf(
      reads,
      accountId,
      [...logins, ...files].map(({ directory_id }) => directory_id),
    );
    const isNew = total.bytes === 0 && !begun.hasUpload && days.every(({ uploads }) => uploads === 0);
    const live = connected.reduce((sum, { sftp_username }) => sum + sessions.of(sftp_username).length, 0);
    return c.render(
      <Layout
        title="Home"
        actions={
          !isNew &&
          maySend(c, DIRECTORIES) && (
            <a class="button" href="/dashboard/directories/new">
              New directory
            </a>
          )
        }
      >
        {(!isNew || webhooks.length > 0) && (
          <Attention {...{ webhooks, logins, names, areLoginsKnown: isRead(refusals.knownUntil, now) }} />
        )}
        <FirstSteps begun={begun} needsKey={allowsApi(plan)} />
        {!isNew && (
          <>
            <Figures {...{ days, stored: total, held, refusals, span, live }} />
            <LatestFiles of={files} names={names} />
          </>
        )}
      </Layout>,
    );
  });
}

interface AttentionProps {
  readonly webhooks: readonly Problem[];
  readonly logins: readonly LoginProblem[];
  readonly names: ReadonlyMap<string, string>;
  /** Whether sshd's log is read, which tells of failed logins. */
  readonly areLoginsKnown: boolean;
}

/** Whether sshd's log was read lately. */
const isRead = (until: Micros | undefined, now: Micros): boolean => until !== undefined && now - until <= UNREAD_AFTER;

const Attention: FC<AttentionProps> = ({ webhooks, logins, names, areLoginsKnown }) => {
  const known = logins.filter(({ directory_id }) => names.has(directory_id));
  if (webhooks.length + known.length === 0)
    return <p class="quiet">{areLoginsKnown ? 'All webhooks and logins work.' : 'All webhooks work.'}</p>;
  return (
    <Section title="Needs attention">
      <ul class="problems">
        {webhooks.slice(0, MOST_WEBHOOKS).map((problem) => (
          <WebhookProblem of={problem} />
        ))}
        {known.map((problem) => (
          <LoginProblemRow of={problem} name={names.get(problem.directory_id) ?? ''} />
        ))}
      </ul>
      {webhooks.length > MOST_WEBHOOKS && <a href="/dashboard/deliveries?state=failed">All failed deliveries</a>}
    </Section>
  );
};

/** A number that may be larger. */
const atLeast = (count: number): string => `${counted(count)}${count === COUNTED ? ' or more' : ''}`;
const files = (count: number): string => `${atLeast(count)} ${count === 1 ? 'file' : 'files'}`;

const WebhookProblem: FC<{ of: Problem }> = ({ of: { id, name, url, open, sending, since, last } }) => (
  <li class="bad">
    <div>
      <Name of={name} most={NAME_LENGTH} href={`/dashboard/directories/${id}/webhook`} />
      <p>
        <Cause of={last} url={url} /> · started <Time at={since} />
      </p>
      <p class="quiet">
        {open > 0 ? `${files(open)} not delivered` : ''}
        {open > 0 && sending > 0 && ', '}
        {sending > 0 && `${files(sending)} will be sent again`}
      </p>
    </div>
    <div class="actions">
      <a class="button plain" href={`${deliveriesOf(id)}&state=failed`}>
        See why
      </a>
      {open > 0 && <ActionButton action={SEND_AGAIN} label="Send again" about={name} fields={{ directory: id }} />}
    </div>
  </li>
);

const LoginProblemRow: FC<{ of: LoginProblem; name: string }> = ({ of: { directory_id, count, last }, name }) => {
  const path = `/dashboard/directories/${directory_id}`;
  return (
    <li class="waiting">
      <div>
        <Name of={name} most={NAME_LENGTH} href={path} />
        <p>
          {last ? (
            <>
              {count === 1 ? 'A login failed' : `${counted(count)} logins failed`}
              {last.address !== null && ` from ${last.address}`}, last <Time at={last.at} />:{' '}
              <Text of={last.text} most={200} />
            </>
          ) : (
            'Nobody can log in: no public key'
          )}
        </p>
      </div>
      <div class="actions">
        <a class="button plain" href={`${path}/access#${last ? 'why' : 'public_key'}`}>
          Fix
        </a>
      </div>
    </li>
  );
};

interface FiguresProps {
  /** The days that are shown, after as many before them. */
  readonly days: readonly DayOfUploads[];
  readonly stored: Stored;
  readonly held: readonly (number | undefined)[];
  readonly refusals: Refusals;
  readonly span: { readonly now: Micros; readonly days: Days };
  /** How many SFTP sessions are open. */
  readonly live: number;
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** `+4 %`; undefined if there is nothing to compare with. */
function changeInWords(now: number, before: number | undefined): string | undefined {
  if (before === undefined || before === 0) return undefined;
  const percent = Math.round((now / before - 1) * 100);
  return `${percent > 0 ? '+' : percent < 0 ? '−' : '±'}${counted(Math.abs(percent))} %`;
}

const Figures: FC<FiguresProps> = ({ days, stored, held, refusals: { byDay, knownUntil }, span, live }) => {
  const before = days.slice(0, span.days);
  const shown = days.slice(span.days);
  const trend = (of: (day: DayOfUploads) => number) => changeInWords(sum(shown.map(of)), sum(before.map(of)));
  const uploads = shown.map((day) => day.uploads);
  return (
    <>
      <dl class="figures">
        <Figure
          value={counted(sum(uploads))}
          name={sum(uploads) === 1 ? 'file' : 'files'}
          note={trend((day) => day.uploads)}
        />
        <Figure
          value={sizeInWords(sum(shown.map(({ bytes }) => bytes)))}
          name="received"
          note={trend(({ bytes }) => bytes)}
        />
        <Figure value={sizeInWords(stored.bytes)} name="stored" note={withWeek(changeInWords(stored.bytes, held[0]))} />
        <Figure
          value={counted(stored.directories)}
          name={<a href="/dashboard/directories">{stored.directories === 1 ? 'directory' : 'directories'}</a>}
          note={live > 0 ? <a href={ACTIVITY}>{counted(live)} connected now</a> : undefined}
        />
        <Figure
          value={knownUntil === undefined ? '–' : counted(sum(byDay))}
          name={<a href={`${ACTIVITY}?topic=logins`}>{sum(byDay) === 1 ? 'failed login' : 'failed logins'}</a>}
          note={<LogState until={knownUntil} now={span.now} />}
        />
      </dl>
      <Section title="Files per day">
        <DaysChoice current={span.days} />
        <DayChart title="Files per day" days={shown.map(({ day, uploads: value }) => ({ day, value }))} />
      </Section>
    </>
  );
};

const withWeek = (change: string | undefined): string | undefined => change && `${change} in ${GROWTH_DAYS} days`;

/** Says that failed logins are not known, or not up to now. */
const LogState: FC<{ until: Micros | undefined; now: Micros }> = ({ until, now }) => {
  if (until === undefined) return <>Not known yet: berth hasn’t found sshd’s log.</>;
  if (isRead(until, now)) return <></>;
  return (
    <>
      sshd’s log was last read <Time at={until} />.
    </>
  );
};

const Figure: FC<{ value: string; name: Child; note: Child }> = ({ value, name, note }) => (
  <div>
    <dt>{name}</dt>
    <dd class="figure">{value}</dd>
    {note !== undefined && <dd class="quiet">{note}</dd>}
  </div>
);

const LatestFiles: FC<{ of: readonly LatestUpload[]; names: ReadonlyMap<string, string> }> = ({ of, names }) =>
  of.length === 0 ? (
    <></>
  ) : (
    <Section title="Last files">
      <Table
        caption="The last files that arrived"
        isCompact
        columns={['File', 'Directory', 'Arrived']}
        rows={of.map(({ directory_id, path, at }) => [
          <Name
            of={path ?? ''}
            most={100}
            {...(names.has(directory_id) && { href: `/dashboard/directories/${directory_id}/files` })}
          />,
          <Text of={names.get(directory_id) ?? 'deleted directory'} />,
          <Time at={at} />,
        ])}
      />
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
      about: 'The directory’s page has commands for common clients.',
    },
    {
      isDone: begun.isDelivered,
      name: 'Set a webhook and receive a delivery',
      address: newest ? `${page}/webhook` : page,
      about: 'berth notifies your server of each file as soon as it is complete.',
    },
  ];
  if (needsKey)
    steps.push({
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

interface Begun {
  readonly hasKey: boolean;
  /** The newest directory, for the links. */
  readonly newest: { readonly id: string } | undefined;
  readonly hasUpload: boolean;
  /** Whether a receiver has accepted one of the newest deliveries. */
  readonly isDelivered: boolean;
}

/** How many of the newest deliveries are searched for one that was delivered. */
const SEARCHED = 1000;

/** How far an account has come with its first steps. */
async function begunIn(reads: Kysely<Tables>, accountId: string): Promise<Begun> {
  const key = await reads
    .selectFrom('api_keys')
    .select('id')
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  const uploaded = await reads
    .selectFrom('directories')
    .select('last_upload_at')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('last_upload_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  const newest = await reads
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('inserted_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  const latest = reads
    .selectFrom('deliveries')
    .select('state')
    .where('account_id', '=', accountId)
    .orderBy('inserted_at', 'desc')
    .limit(SEARCHED);
  const delivered = await reads
    .selectFrom(latest.as('latest'))
    .select('state')
    .where('state', '=', 'delivered')
    .limit(1)
    .executeTakeFirst();
  return {
    hasKey: key !== undefined,
    newest,
    hasUpload: (uploaded?.last_upload_at ?? 0) > 0,
    isDelivered: delivered !== undefined,
  };
}
