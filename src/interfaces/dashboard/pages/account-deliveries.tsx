/** What is not delivered and why, with the remedies; and the list of deliveries, of one directory or all, with filters and an export. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import {
  type Count,
  countDeliveries,
  type DeliverySearch,
  deliveriesPage,
  DELIVERY_STATES,
  MOST_REPLAYED,
  replayable,
  type ShownState,
} from '../../../deliveries/webhooks/delivery-list.ts';
import { replayFailed, stopReplays } from '../../../deliveries/webhooks/replay.ts';
import { type Trial, tryWebhook } from '../../../deliveries/webhooks/try.ts';
import { csvAnswer, timeCell } from '../csv.ts';
import { Candidates } from '../components/directory.tsx';
import { Cause, DeliveryList, Duration, Excerpt, LISTED } from '../components/exchange.tsx';
import { ActionButton, Field } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Links, Pager } from '../components/section.tsx';
import { Name, Text } from '../components/text.tsx';
import { counted, Time } from '../components/values.tsx';
import { type DashboardEnv, type FormFields, type PageContext, targetOf } from '../environment.ts';
import { formFields, submitted, timeIn } from '../form.ts';
import { type Live, renderedIn } from '../live.tsx';
import { type ListPlace, placeIn, placeText } from '../../../foundation/db/lists.ts';
import { COUNTED, type Problem, problemsOf } from '../../../deliveries/webhooks/health.ts';
import { directoryMeant } from '../../../operating/reports/named.ts';
import { type DirectoryEntry, NO_DIRECTORY } from '../../../rules/directories/view.ts';
import { BerthError, ValidationError } from '../../../foundation/base/errors.ts';

const PATH = '/dashboard/deliveries';
const PAGE = 50;
/** Deliveries that are read at once for an export. */
const CSV_BATCH = 500;
const CSV_HEADER = 'id,created,directory_id,directory,file,state,attempts,status,error,url,replayed_as'.split(',');
/** The longest text of a filter in a form, in characters. */
const LONGEST_FILTER = 1000;
/** How often the page looks for changes. */
const POLL_MS = 4000;

const DONE = {
  replayed: 'Sending {count} failed deliveries again, oldest first.',
  stopped: 'Stopped. {count} deliveries are not sent again.',
};
const PROBLEMS = { webhook_url: 'Their directories have no webhook URL. Set one first.' };

/** How many problems are shown; the others can be found by their directories. */
const MOST_PROBLEMS = 10;

/** Where a form with the field `directory` sends all that has failed there again. */
export const SEND_AGAIN = `${PATH}/send-again`;

/** The tabs, by the state in the URL. */
const TABS = { failed: 'Needs attention', pending: 'On the way', delivered: 'Delivered', all: 'All' } as const;

const STATES = ['failed', 'pending', 'delivered', 'all'] as const;

/** The filters in the URL. */
const FIELDS = ['state', 'directory', 'file', 'since', 'until'] as const;
type Query = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>;

interface Search {
  readonly filter: DeliverySearch;
  /** Set if the text for the directory does not name exactly one: the directories that it may mean, if any. */
  readonly candidates?: readonly DirectoryEntry[];
}

/** The result of a test that was just sent for a directory. */
interface Tested {
  readonly directory: string;
  readonly trial: Trial;
}

export function accountDeliveriesPage(app: Hono<DashboardEnv>, context: AppContext, live: Live): void {
  const { reads } = context.database;

  async function searchOf(c: PageContext, query: FormFields): Promise<Search> {
    const { principal } = c.get('user');
    const { accountId, scope } = principal;
    const { directory = '', file = '' } = query;
    const state = DELIVERY_STATES.find((each) => each === query['state']);
    const filter: DeliverySearch = {
      owner: { accountId },
      state,
      isOpen: state === 'failed',
      since: timeIn(query['since']),
      until: timeIn(query['until']),
      text: file.trim() === '' ? undefined : file.trim(),
    };
    if (directory.trim() === '' && !scope.directories) return { filter };
    const text = directory.trim();
    const meant = await directoryMeant(reads, principal, text);
    const directoryId = 'id' in meant ? meant.id : NO_DIRECTORY;
    return { filter: { ...filter, owner: { accountId, directoryId } }, ...('candidates' in meant && meant) };
  }

  async function page(c: PageContext, tested?: Tested) {
    const query = queryIn(c.req.query());
    const { filter, candidates } = await searchOf(c, query);
    const total = await countDeliveries(reads, filter);
    const countOf = (state: ShownState | undefined, isOpen = false) =>
      state === filter.state && isOpen === filter.isOpen ? total : countDeliveries(reads, { ...filter, state, isOpen });
    const failed = await countOf('failed', true);
    // Not in a search by name, which has to read each name that it counts.
    const pending = filter.text === undefined ? await countOf('pending') : undefined;
    const delivered = pending && without(await countOf(undefined), pending, await countOf('failed'));
    const counts: Readonly<Record<keyof typeof TABS, string>> = {
      failed: inWords(failed),
      pending: inWords(pending),
      delivered: inWords(delivered),
      all: '',
    };
    const nameOf = (state: keyof typeof TABS) => `${TABS[state]} ${counts[state]}`.trimEnd();
    const tabs = STATES.map((state) => [
      nameOf(state),
      addressOf(query, { state: state === 'all' ? undefined : state }),
    ]);
    const current = nameOf(filter.state ?? 'all');
    const after = c.req.query('after');
    const { deliveries, next } = await pageOf(filter, placeIn(after));
    // A search by name reads too much to be repeated all the time.
    const events = filter.text === undefined ? `${PATH}/events${new URL(c.req.url).search}` : undefined;
    const problems = (await problemsIn(c, filter)) ?? [];
    const mayReplay = filter.state === undefined || filter.state === 'failed';
    return c.render(
      <Layout title="Deliveries" done={DONE} problems={PROBLEMS}>
        <Links class="views" label="States" links={Object.fromEntries(tabs)} current={current} />
        <form class="toolbar">
          {query.state !== undefined && <input type="hidden" name="state" value={query.state} />}
          <Field
            label="Directory"
            name="directory"
            value={query.directory ?? ''}
            placeholder="Name or ID"
            suggests="/dashboard/find"
          />
          <Field label="File name contains" name="file" value={query.file ?? ''} />
          <Field label="From" name="since" type="datetime-local" value={query.since ?? ''} />
          <Field label="Until" name="until" type="datetime-local" value={query.until ?? ''} />
          <button class="plain">Filter</button>
          {Object.keys(query).length > 0 && <a href={PATH}>Clear</a>}
        </form>
        {candidates ? (
          <Candidates
            of={candidates}
            text={query.directory ?? ''}
            addressOf={(directory) => addressOf({ ...query, directory })}
          />
        ) : (
          <>
            <div class="title">
              <p>
                {inWords(total)} {total.count === 1 ? 'delivery' : 'deliveries'}
              </p>
              <a href={`${PATH}/export.csv${addressOf(query).slice(PATH.length)}`}>Export as CSV</a>
              {mayReplay && failed.count > 0 && problems.length !== 1 && <Replay count={failed} query={query} />}
            </div>
            <div data-live={events}>
              <Problems of={problems} tested={tested} sent={sentIn(c)} />
              <DeliveryList of={deliveries}>{NONE}</DeliveryList>
            </div>
            <Pager
              of="deliveries"
              first={after && addressOf(query)}
              next={next && addressOf(query, { after: placeText(next) })}
            />
          </>
        )}
      </Layout>,
    );
  }

  /** The problems behind the list, unless it is narrowed further than to a directory. */
  function problemsIn(c: PageContext, filter: DeliverySearch): Promise<Problem[]> | undefined {
    const { state, text, since, until } = filter;
    const isWhole = (state === undefined || state === 'failed') && text === undefined && since === until;
    if (!isWhole || c.req.query('after') !== undefined) return undefined;
    return problemsOf(reads, filter.owner, MOST_PROBLEMS);
  }

  const pageOf = (filter: DeliverySearch, after: ListPlace | undefined) =>
    deliveriesPage(reads, filter, { after, limit: PAGE });

  app.get(PATH, (c) => page(c));

  app.get(`${PATH}/events`, async (c) => {
    const { filter } = await searchOf(c, queryIn(c.req.query()));
    const after = placeIn(c.req.query('after'));
    return live(c, { everyMs: POLL_MS }, async () => {
      const { deliveries } = await pageOf(filter, after);
      return renderedIn(
        c,
        <>
          <Problems of={(await problemsIn(c, filter)) ?? []} sent={sentIn(c)} />
          <DeliveryList of={deliveries}>{NONE}</DeliveryList>
        </>,
      );
    });
  });

  app.get(`${PATH}/export.csv`, async (c) => {
    const { filter } = await searchOf(c, queryIn(c.req.query()));
    return csvAnswer('deliveries', CSV_HEADER, csvRows(filter));
  });

  async function* csvRows(filter: DeliverySearch) {
    for (let after: ListPlace | undefined, hasMore = true; hasMore;) {
      const batch = await deliveriesPage(reads, filter, { after, limit: CSV_BATCH });
      for (const {
        id,
        directory,
        directory_id,
        filename,
        state,
        attempts,
        url,
        inserted_at,
        replayed_as,
      } of batch.deliveries) {
        const { status = null, error = null } = attempts.at(-1) ?? {};
        const answer = [state, attempts.length, status, error, url] as const;
        yield [id, timeCell(inserted_at), directory_id, directory, filename, ...answer, replayed_as];
      }
      after = batch.next;
      hasMore = after !== undefined;
    }
  }

  app.post(PATH, (c) =>
    submitted(
      c,
      (again) => page(again),
      async (given) => {
        const query = queryIn(given);
        // They go into the address of the answer.
        const long = FIELDS.filter((name) => (query[name]?.length ?? 0) > LONGEST_FILTER);
        if (long.length > 0)
          throw new ValidationError(
            Object.fromEntries(long.map((name) => [name, [['too_long', LONGEST_FILTER, 'character']]])),
          );
        const { filter, candidates } = await searchOf(c, query);
        if (candidates) return addressOf(query);
        const count = await replayAll(c, filter);
        return addressOf(query, { done: `replayed.${count}` });
      },
    ),
  );

  app.post(SEND_AGAIN, (c) =>
    submitted(
      c,
      (again) => page(again),
      async ({ directory = '' }) => {
        const { count } = await replayFailed(context, targetOf(c, directory), { since: 0 });
        const query = { directory, state: 'failed' };
        return addressOf(query, { of: String(count), done: `replayed.${count}` });
      },
    ),
  );

  app.post(`${PATH}/stop`, async (c) => {
    const { directory = '' } = await formFields(c);
    const count = await stopReplays(context, targetOf(c, directory));
    return c.redirect(addressOf({ directory, state: 'failed' }, { done: `stopped.${count}` }), 303);
  });

  // The result of a test is shown in the response to the POST.
  app.post(`${PATH}/test`, (c) =>
    submitted(
      c,
      (again) => page(again),
      async ({ directory = '' }) => {
        const target = targetOf(c, directory);
        await context.web.testSlot(target.accountId, c.env.outgoing);
        return page(c, { directory, trial: await tryWebhook(context, target) });
      },
    ),
  );

  /** Skips deliveries of directories without a webhook URL. Throws the refusal if there were no others. */
  async function replayAll(c: PageContext, filter: DeliverySearch): Promise<number> {
    let count = 0;
    let refused: ValidationError | undefined;
    for (const [id, ids] of await replayable(reads, filter))
      try {
        count += (await replayFailed(context, targetOf(c, id), { ids })).count;
      } catch (error) {
        if (error instanceof ValidationError) refused = error;
        else if (!(error instanceof BerthError && error.code === 'directory_not_found')) throw error;
      }
    if (count === 0 && refused) throw refused;
    return count;
  }
}

function queryIn(given: FormFields): Query {
  return Object.fromEntries(FIELDS.flatMap((name) => (given[name] ? [[name, given[name]]] : [])));
}

function addressOf(query: Query, more: Readonly<Record<string, string | undefined>> = {}): string {
  const known = Object.entries({ ...query, ...more }).filter((each): each is [string, string] => Boolean(each[1]));
  return `${PATH}?${new URLSearchParams(known).toString()}`;
}

/** What is left of all, if everything was counted. */
function without(all: Count, ...parts: readonly Count[]): Count | undefined {
  if (![all, ...parts].every(({ isExact }) => isExact)) return undefined;
  return { count: parts.reduce((rest, { count }) => rest - count, all.count), isExact: true };
}

function inWords(count: Count | undefined): string {
  return count ? `${counted(count.count)}${count.isExact ? '' : '+'}` : '';
}

/** How many were just asked to be sent again; 0 if that is not known. */
const sentIn = (c: PageContext): number => Number(/^\d{1,9}$/.exec(c.req.query('of') ?? '')?.[0] ?? 0);

interface ProblemsProps {
  readonly of: readonly Problem[];
  readonly tested?: Tested | undefined;
  readonly sent: number;
}

const Problems: FC<ProblemsProps> = ({ of, tested, sent }) => (
  <>
    {of.map((problem) => (
      <ProblemSection of={problem} tested={tested?.directory === problem.id ? tested.trial : undefined} sent={sent} />
    ))}
  </>
);

interface ProblemProps {
  readonly of: Problem;
  readonly tested: Trial | undefined;
  /** How many were asked to be sent again; 0 if that is not known. */
  readonly sent: number;
}

const atLeast = (count: number): string => `${counted(count)}${count === COUNTED ? '+' : ''}`;

/** Why nothing arrives at a receiver, and what can be done about it. */
const ProblemSection: FC<ProblemProps> = ({ of: problem, tested, sent }) => {
  const { id, name, url, open, sending, since, delivered_at, last } = problem;
  const path = `/dashboard/directories/${id}`;
  const works = tested?.answer.ok === true;
  return (
    <section class="card">
      <h2>
        <Name of={name} most={LISTED} href={path} /> → <Text of={url} most={LISTED} />
      </h2>
      <p class="bad">
        <strong>
          <Cause of={last} url={url} />
        </strong>
        {', '}started <Time at={since} />.{' '}
        {open > 0 && `${atLeast(open)} ${open === 1 ? 'file' : 'files'} not delivered.`}
      </p>
      <p class="quiet">
        {delivered_at === 0 ? (
          'Nothing was delivered before.'
        ) : (
          <>
            Last delivered: <Time at={delivered_at} />.
          </>
        )}
      </p>
      {last && last.status !== null && <Excerpt of={last.response} />}
      {tested && <TestLine of={tested} />}
      {sending > 0 && (
        <div class="actions" role="status">
          {sent > sending && <progress max={sent} value={sent - sending} aria-label="Sent again" />}
          <span>
            {sent > sending
              ? `${counted(sent - sending)} of ${counted(sent)} sent again`
              : `${atLeast(sending)} will be sent again`}
          </span>
          <ActionButton action={`${PATH}/stop`} label="Stop" about={name} fields={{ directory: id }} />
        </div>
      )}
      <div class="actions">
        {open > 0 && (
          <ActionButton
            action={SEND_AGAIN}
            label={`Send ${atLeast(open)} again`}
            about={name}
            kind="primary"
            fields={{ directory: id }}
          />
        )}
        <ActionButton
          action={`${PATH}/test${addressOf({ directory: id, state: 'failed' }).slice(PATH.length)}`}
          label={works ? 'Send another test' : 'Send test'}
          about={name}
          fields={{ directory: id }}
        />
        <a href={`${path}/webhook`}>Change URL</a>
      </div>
    </section>
  );
};

const TestLine: FC<{ of: Trial }> = ({ of: { request, answer } }) => (
  <div role="status">
    <p class={answer.ok ? 'notice' : 'problem'}>
      {answer.ok ? '✓' : '✗'} <Cause of={answer} url={request.url} />
      {answer.ok && (
        <>
          {' '}
          in <Duration of={answer.latency} />. It works again.
        </>
      )}
    </p>
    {!answer.ok && answer.status !== null && <Excerpt of={answer.response} />}
  </div>
);

const NONE = <Empty title="No deliveries match these filters" />;

/** Sends the failed deliveries of the list again. */
const Replay: FC<{ count: Count; query: Query }> = ({ count, query }) => {
  const words = count.count > MOST_REPLAYED ? `the newest ${counted(MOST_REPLAYED)}` : inWords(count);
  return (
    <ActionButton
      action={PATH}
      label={`Send ${words} again`}
      about={`${words} failed`}
      kind="primary"
      fields={query}
      confirm="Sends the same content again, oldest first."
    />
  );
};
