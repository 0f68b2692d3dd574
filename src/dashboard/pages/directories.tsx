/** All directories of the account, and a new one. */
import type { Context, Hono } from 'hono';
import * as v from 'valibot';
import { type CreateDependencies, createDirectory } from '../../directories/create.ts';
import { BerthError, type FieldErrors } from '../../errors.ts';
import { DirectoryTable } from '../components/directory-table.tsx';
import { Empty } from '../components/empty.tsx';
import { Field } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { NewDirectory } from '../components/new-directory.tsx';
import { Pager } from '../components/pager.tsx';
import { askerOf, type DashboardEnv } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf, numberIn, textOrNull } from '../form.ts';
import { directoryPage, type Listing, type Order, ORDERS, type Place } from '../queries/directories.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { showOnce } from '../shown-once.ts';

const PATH = '/dashboard/directories';
const DONE = { deleted: 'The directory and its files are deleted.' };
/** More than any name and reference that could be found. */
const LONGEST_SEARCH = 300;

interface Refused {
  readonly given: FormFields;
  readonly errors?: FieldErrors | undefined;
  readonly problem?: string;
}

export function directoriesPage(app: Hono<DashboardEnv>, rules: CreateDependencies): void {
  const { reads } = rules.database;

  async function page(c: Context<DashboardEnv>, { given, errors, problem }: Refused = { given: {} }) {
    const { accountId } = c.get('user').principal;
    const listing = listingIn(c.req.query());
    const { rows, previous, next } = await directoryPage(reads, accountId, listing);
    const failing = await failingWebhooks(
      reads,
      rows.map(({ id }) => id),
    );
    const isWhole = listing.search === '' && !listing.after && !listing.before;
    const start = { ...listing, after: undefined, before: undefined };
    if (errors ?? problem) c.status(422);
    return c.render(
      <Layout
        title="Directories"
        notice={noticeOf(c, DONE)}
        problem={problem}
        actions={
          <a class="button" href="#new">
            New directory
          </a>
        }
      >
        {rows.length === 0 && isWhole ? (
          <Empty title="No directories yet">
            <p>Create the first one below. Its customer can log in over SFTP at once.</p>
          </Empty>
        ) : (
          <Search listing={listing} />
        )}
        {rows.length === 0 && !isWhole && (
          <Empty title={listing.search === '' ? 'Nothing more here' : 'Nothing found'}>
            <p>
              <a href={PATH}>{listing.search === '' ? 'To the first page' : 'Clear the search'}</a>
            </p>
          </Empty>
        )}
        {rows.length > 0 && (
          <DirectoryTable
            rows={rows}
            failing={failing}
            now={rules.clock.now()}
            column={(order, name) => ({ name, ...sortBy(start, order) })}
          />
        )}
        <Pager
          of="directories"
          previous={previous && addressOf({ ...start, before: previous })}
          next={next && addressOf({ ...start, after: next })}
        />
        <NewDirectory given={given} errors={errors} />
      </Layout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, async (c) => {
    const { accountId } = c.get('user').principal;
    const given = await formFields(c);
    const fields = {
      name: given['name'],
      description: textOrNull(given['description']),
      external_id: textOrNull(given['external_id']),
      retention_days: numberIn(given['retention_days']),
      max_connections: numberIn(given['max_connections']),
    };
    let made = PATH;
    try {
      const errors = await fieldErrors(async () => {
        const { directory, password } = await createDirectory(rules, accountId, fields, askerOf(c));
        made = `${PATH}/${directory.id}`;
        showOnce(c, { kind: 'sftp-password', value: password, page: made });
      });
      return errors ? await page(c, { given, errors }) : c.redirect(`${made}?done=created`, 303);
    } catch (error) {
      if (!(error instanceof BerthError && error.code === 'directory_limit')) throw error;
      return page(c, { given, problem: `${error.message}.` });
    }
  });
}

const Search = ({ listing: { search, order, isReversed } }: { listing: Listing }) => (
  <form class="toolbar" role="search">
    <input type="hidden" name="sort" value={`${isReversed ? '-' : ''}${order}`} />
    <Field label="Search" name="q" type="search" value={search} hint="Name, username, slug or external id." />
    <button class="plain">Search</button>
    {search !== '' && <a href={PATH}>Clear the search</a>}
  </form>
);

/** Where the heading of that column leads: from the order that is there already, the other way round. */
function sortBy(listing: Listing, order: Order) {
  const isThis = listing.order === order;
  const address = addressOf({ ...listing, order, isReversed: isThis && !listing.isReversed });
  if (!isThis) return { address, sorted: undefined };
  const isDown = ORDERS[order].isDown !== listing.isReversed;
  return { address, sorted: isDown ? 'descending' : 'ascending' } as const;
}

const isOrder = (text: string): text is Order => Object.hasOwn(ORDERS, text);

/** What the address asks for; what it does not say, and what nobody understands, is as at first. */
function listingIn(query: Record<string, string>): Listing {
  const { q = '', sort = '', after, before } = query;
  const name = sort.replace(/^-/, '');
  return {
    search: q.trim().slice(0, LONGEST_SEARCH),
    order: isOrder(name) ? name : 'created',
    isReversed: isOrder(name) && name !== sort,
    after: after === undefined ? undefined : placeIn(after),
    before: before === undefined ? undefined : placeIn(before),
  };
}

function addressOf({ search, order, isReversed, after, before }: Listing): string {
  const query = new URLSearchParams();
  if (search !== '') query.set('q', search);
  if (order !== 'created' || isReversed) query.set('sort', `${isReversed ? '-' : ''}${order}`);
  if (after) query.set('after', placeText(after));
  if (before) query.set('before', placeText(before));
  return query.size > 0 ? `${PATH}?${query.toString()}` : PATH;
}

const PlaceText = v.tuple([v.union([v.string(), v.number()]), v.string()]);

function placeText({ key, id }: Place): string {
  return Buffer.from(JSON.stringify([key, id])).toString('base64url');
}

function placeIn(text: string): Place | undefined {
  try {
    const [key, id] = v.parse(PlaceText, JSON.parse(Buffer.from(text, 'base64url').toString()));
    return { key, id };
  } catch {
    return undefined;
  }
}
