/** The list of deliveries, of one directory or all, with filters, an export, and a button that sends the failed ones again. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { BerthError, ValidationError } from '../../../foundation/base/errors.ts';
import { DELIVERY_STATES, type ShownState } from '../../../deliveries/webhooks/delivery-list.ts';
import type { WebhookRules } from '../../../deliveries/webhooks/receiver-of.ts';
import { replayFailed } from '../../../deliveries/webhooks/replay.ts';
import { csvAnswer, timeCell } from '../csv.ts';
import { Candidates } from '../components/directory.tsx';
import { DeliveryState, LISTED, Outcome } from '../components/exchange.tsx';
import { Field, Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager } from '../components/section.tsx';
import { number, Table } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { counted, Time } from '../components/values.tsx';
import { type DashboardEnv, type FormFields, type PageContext, targetOf } from '../environment.ts';
import { submitted, timeIn } from '../form.ts';
import { type Live, renderedIn } from '../live.tsx';
import {
  type AccountDelivery,
  accountDeliveries,
  type Count,
  COUNTED_RESENDS,
  countDeliveries,
  countResends,
  type DeliveriesFilter,
  MOST_REPLAYED,
  replayable,
} from '../queries/account-deliveries.ts';
import { type ListPlace, placeIn, placeText } from '../../../foundation/db/list-place.ts';
import { directoryMeant, type DirectoryEntry } from '../queries/directories.ts';

const PATH = '/dashboard/deliveries';
const PAGE = 50;
/** Deliveries that are read at once for an export. */
const CSV_BATCH = 500;
const CSV_HEADER = 'id,created,directory_id,directory,file,state,attempts,status,error,url,replayed_as'.split(',');
/** The longest text of a filter in a form, in characters. */
const LONGEST_FILTER = 1000;
/** How often the page looks for changes. */
const POLL_MS = 4000;

const DONE = { replayed: 'Sending {count} failed deliveries again, oldest first.' };
const PROBLEMS = { webhook_url: 'Their directories have no webhook URL. Set one first.' };

/** The filters in the URL. */
const FIELDS = ['state', 'directory', 'file', 'since', 'until'] as const;
type Query = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>;

interface Search {
  readonly filter: DeliveriesFilter;
  /** Set if the text for the directory does not name exactly one: the directories that it may mean, if any. */
  readonly candidates?: readonly DirectoryEntry[];
}

interface AccountDeliveriesOptions {
  readonly rules: WebhookRules;
  readonly live: Live;
}

export function accountDeliveriesPage(app: Hono<DashboardEnv>, { rules, live }: AccountDeliveriesOptions): void {
  const { reads } = rules.database;

  async function searchOf(c: PageContext, query: FormFields): Promise<Search> {
    const { accountId } = c.get('user').principal;
    const { directory = '', file = '' } = query;
    const state = DELIVERY_STATES.find((each) => each === query['state']);
    const filter: DeliveriesFilter = {
      accountId,
      state,
      isOpen: state === 'failed',
      since: timeIn(query['since']),
      until: timeIn(query['until']),
      text: file.trim() === '' ? undefined : file.trim(),
    };
    if (directory.trim() === '') return { filter };
    const text = directory.trim();
    const meant = await directoryMeant(reads, accountId, text);
    return 'id' in meant ? { filter: { ...filter, directoryId: meant.id } } : { filter, candidates: meant.candidates };
  }

  async function page(c: PageContext) {
    const query = queryIn(c.req.query());
    const { filter, candidates } = await searchOf(c, query);
    const total = await countDeliveries(reads, filter);
    const countOf = (state: ShownState | undefined, isOpen = false) =>
      state === filter.state && isOpen === filter.isOpen ? total : countDeliveries(reads, { ...filter, state, isOpen });
    const failed = await countOf('failed', true);
    // Not in a search by name, which has to read each name that it counts.
    const pending = filter.text === undefined ? await countOf('pending') : undefined;
    const delivered = pending && without(await countOf(undefined), pending, await countOf('failed'));
    const links = { All: undefined, Pending: 'pending', Delivered: 'delivered', Failed: 'failed' } as const;
    const names: Readonly<Record<string, string>> = {
      All: 'All',
      Pending: `Pending ${inWords(pending)}`,
      Delivered: `Delivered ${inWords(delivered)}`.trimEnd(),
      Failed: `Failed ${inWords(failed)}`,
    };
    const resends = await countResends(reads, filter);
    const tabs = Object.entries(links).map(([name, state]) => [names[name] ?? name, addressOf(query, { state })]);
    const current = names[capitalized(filter.state ?? 'all')];
    const after = c.req.query('after');
    const { deliveries, next } = await pageOf(filter, placeIn(after));
    // A search by name reads too much to be repeated all the time.
    const events = filter.text === undefined ? `${PATH}/events${new URL(c.req.url).search}` : undefined;
    const mayReplay = filter.state === undefined || filter.state === 'failed';
    return c.render(
      <Layout title="Deliveries" done={DONE} problems={PROBLEMS}>
        <Links class="views" label="States" links={Object.fromEntries(tabs)} current={current} />
        <form class="toolbar">
          {query.state !== undefined && <input type="hidden" name="state" value={query.state} />}
          <Field label="Directory" name="directory" value={query.directory ?? ''} placeholder="Name or ID" />
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
              {mayReplay && failed.count > 0 && <Replay count={failed} query={query} />}
            </div>
            {resends > 0 && (
              <p class="notice">
                {resends === COUNTED_RESENDS ? `${counted(resends)} or more` : counted(resends)} will be sent again.
              </p>
            )}
            <div data-live={events}>
              <DeliveryList of={deliveries} />
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

  const pageOf = (filter: DeliveriesFilter, after: ListPlace | undefined) =>
    accountDeliveries(reads, filter, { after, limit: PAGE });

  app.get(PATH, page);

  app.get(`${PATH}/events`, async (c) => {
    const { filter } = await searchOf(c, queryIn(c.req.query()));
    const after = placeIn(c.req.query('after'));
    return live(c, { everyMs: POLL_MS }, async () => {
      const { deliveries } = await pageOf(filter, after);
      return renderedIn(c, <DeliveryList of={deliveries} />);
    });
  });

  app.get(`${PATH}/export.csv`, async (c) => {
    const { filter } = await searchOf(c, queryIn(c.req.query()));
    return csvAnswer('deliveries', CSV_HEADER, csvRows(filter));
  });

  async function* csvRows(filter: DeliveriesFilter) {
    for (let after: ListPlace | undefined, hasMore = true; hasMore;) {
      const batch = await accountDeliveries(reads, filter, { after, limit: CSV_BATCH });
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
    submitted(c, page, async (given) => {
      const query = queryIn(given);
      // They go into the address of the answer.
      const long = FIELDS.filter((name) => (query[name]?.length ?? 0) > LONGEST_FILTER);
      if (long.length > 0)
        throw new ValidationError(
          Object.fromEntries(long.map((name) => [name, [`should be at most ${LONGEST_FILTER} character(s)`]])),
        );
      const { filter, candidates } = await searchOf(c, query);
      if (candidates) return addressOf(query);
      const count = await replayAll(c, filter);
      return addressOf(query, { done: `replayed.${count}` });
    }),
  );

  /** Skips deliveries of directories without a webhook URL. Throws the refusal if there were no others. */
  async function replayAll(c: PageContext, filter: DeliveriesFilter): Promise<number> {
    let count = 0;
    let refused: ValidationError | undefined;
    for (const [id, ids] of await replayable(reads, filter))
      try {
        count += (await replayFailed(rules, targetOf(c, id), { ids })).count;
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

const DeliveryList: FC<{ of: readonly AccountDelivery[] }> = ({ of }) => (
  <Table
    caption="Newest first"
    columns={['File', 'Directory', 'State', 'Last response', number('Attempts'), 'Created']}
    rows={of.map(({ directory_id, directory, ...delivery }) => [
      <Name
        of={delivery.filename}
        most={LISTED}
        href={`/dashboard/directories/${directory_id}/webhook/deliveries/${delivery.id}`}
      />,
      <Name of={directory} href={`/dashboard/directories/${directory_id}`} />,
      <DeliveryState of={delivery} />,
      <Outcome of={delivery.attempts.at(-1) ?? { status: null, error: null }} url={delivery.url} most={LISTED} />,
      delivery.attempts.length,
      <Time at={delivery.inserted_at} />,
    ])}
  >
    <Empty title="No deliveries match these filters" />
  </Table>
);

/** Sends the failed deliveries of the list again. */
const Replay: FC<{ count: Count; query: Query }> = ({ count, query }) => {
  const words = count.count > MOST_REPLAYED ? `the newest ${counted(MOST_REPLAYED)}` : inWords(count);
  return (
    <Form action={PATH} confirm="Sends the same content again, oldest first." about={`${words} failed`}>
      {Object.entries(query).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <button>Send {words} again</button>
    </Form>
  );
};
