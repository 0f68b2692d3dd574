/** All directories of the account, and a page with a form for a new one. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { DIRECTORY_LIMITS } from '../../../rules/accounts/accounts.ts';
import { type Created, createDirectory } from '../../../rules/directories/create.ts';
import { DirectoryState, MoreFields, NameField } from '../components/directory.tsx';
import { Field, Folded, Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Pager } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { counted, Size, Time } from '../components/values.tsx';
import { addressOf, columnOf, DIRECTORIES, IMPORT, listingIn, sortOf } from '../directories-view.ts';
import { type DashboardEnv, hasAccount, type PageContext } from '../environment.ts';
import { maySend } from '../limits.ts';
import { numberIn, submitted, textOrNull } from '../form.ts';
import { directoryPage, type Listing, storedIn } from '../../../rules/directories/view.ts';
import { failingWebhooks } from '../../../deliveries/webhooks/health.ts';
import { CreatingForms } from '../sent-forms.ts';

const NEW = `${DIRECTORIES}/new`;

const mayCreate = (c: PageContext): boolean => hasAccount(c) && maySend(c, DIRECTORIES);

const DONE = { deleted: 'The directory and its files have been deleted.' };

export function directoriesPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const { reads } = context.database;
  const sent = new CreatingForms(context);

  /** The plan's limit, if it is used up. */
  async function fullLimit(c: PageContext): Promise<number | undefined> {
    const { plan, accountId } = c.get('user').principal;
    const limit = DIRECTORY_LIMITS[plan];
    return limit !== undefined && (await storedIn(reads, accountId)).directories >= limit ? limit : undefined;
  }

  async function page(c: PageContext) {
    const listing = listingIn(c.req.query());
    const { rows, previous, next } = await directoryPage(reads, c.get('user').principal, listing);
    const ids = rows.map(({ id }) => id);
    const failing = await failingWebhooks(reads, ids);
    const now = context.clock.now();
    const limit = await fullLimit(c);
    const isNew = rows.length === 0 && listing.search === '' && !listing.after && !listing.before;
    const start = { ...listing, after: undefined, before: undefined };
    return c.render(
      <Layout title="Directories" done={DONE} actions={mayCreate(c) && limit === undefined && <NewActions />}>
        {mayCreate(c) && limit !== undefined && <Full limit={limit} />}
        {!isNew && <Search listing={listing} />}
        <Table
          caption="Directories of your account"
          isCompact
          columns={[
            columnOf(start, 'name', 'Name'),
            { name: 'Username', kind: 'extra' },
            { ...columnOf(start, 'storage', 'Storage'), kind: 'number' },
            columnOf(start, 'upload', 'Last upload'),
            { ...columnOf(start, 'created', 'Created'), kind: 'extra' },
            { name: 'State', kind: 'end' },
          ]}
          rows={rows.map((row) => [
            <Name of={row.name} href={`${DIRECTORIES}/${row.id}`} />,
            <code>{row.sftp_username}</code>,
            <Size bytes={row.storage_bytes} />,
            <Time at={row.last_upload_at === 0 ? null : row.last_upload_at} />,
            <Time at={row.inserted_at} />,
            <DirectoryState of={row} isFailing={failing.has(row.id)} now={now} />,
          ])}
        >
          {isNew ? (
            <Empty title="No directories yet">
              {mayCreate(c) && (
                <>
                  <a href={NEW}>Create the first one</a>. It works immediately.
                </>
              )}
            </Empty>
          ) : (
            <Empty title={listing.search === '' ? 'Nothing more here' : 'Nothing found'}>
              <a href={DIRECTORIES}>{listing.search === '' ? 'Go to the first page' : 'Clear the search'}</a>
            </Empty>
          )}
        </Table>
        <Pager
          of="directories"
          previous={previous && addressOf({ ...start, before: previous })}
          next={next && addressOf({ ...start, after: next })}
        />
      </Layout>,
    );
  }

  app.get(DIRECTORIES, page);

  async function newPage(c: PageContext) {
    const limit = await fullLimit(c);
    return c.render(
      <Layout title="New directory" above={[['Directories', DIRECTORIES]]}>
        {limit === undefined ? <NewDirectory /> : <Full limit={limit} />}
      </Layout>,
    );
  }

  app.get(NEW, newPage);

  app.post(DIRECTORIES, (c) =>
    submitted(c, newPage, async (given) => {
      const { name, description, external_id, retention_days, max_connections } = given;
      const fields = {
        name,
        description: textOrNull(description),
        external_id: textOrNull(external_id),
        retention_days: numberIn(retention_days),
        max_connections: numberIn(max_connections),
      };
      const made = await sent.create<Created>(
        c,
        given,
        (target) => createDirectory(context, target, fields),
        ({ directory, password }) => ({
          kind: 'sftp-password',
          value: password,
          page: `${DIRECTORIES}/${directory.id}/access`,
        }),
      );
      return `${made}?done=created`;
    }),
  );
}

/** A phone shows no heads of columns, so it has these. */
const SORTS = {
  created: 'Newest first',
  '-created': 'Oldest first',
  name: 'Name, A to Z',
  '-name': 'Name, Z to A',
  upload: 'Last upload first',
  '-upload': 'Last upload last',
  storage: 'Largest first',
  '-storage': 'Smallest first',
};

const NewActions = () => (
  <div class="actions">
    <a class="button plain" href={IMPORT}>
      Import
    </a>
    <a class="button" href={NEW}>
      New directory
    </a>
  </div>
);

const Search: FC<{ listing: Listing }> = ({ listing }) => (
  <form class="toolbar" role="search" aria-label="Directories">
    <Field label="Search" name="q" type="search" value={listing.search} placeholder="Name, username or external ID" />
    <button class="plain">Search</button>
    <div class="field sort">
      <label for="sort">Sort by</label>
      <select id="sort" name="sort" data-submit>
        {Object.entries(SORTS).map(([value, text]) => (
          <option value={value} selected={value === sortOf(listing)}>
            {text}
          </option>
        ))}
      </select>
    </div>
    {listing.search !== '' && <a href={DIRECTORIES}>Clear the search</a>}
  </form>
);

const Full: FC<{ limit: number }> = ({ limit }) => (
  <p class="secret">
    Your plan has {counted(limit)} {limit === 1 ? 'directory, and it is' : 'directories, and all are'} in use. Delete
    one to create another, or ask the operator of this server for a larger plan.
  </p>
);

/** The form for a new directory. Only the name is required. */
const NewDirectory = () => (
  <section class="card">
    <p class="quiet">It works immediately. You’ll get a username and a password.</p>
    <Form action={DIRECTORIES} isOnce>
      <NameField hint="A customer or a purpose, such as Acme Corp." isFirst />
      <Folded summary="More settings" fields={['description', 'external_id', 'max_connections', 'retention_days']}>
        <MoreFields stored={{ max_connections: '10' }} />
        <Field
          label="Retention days"
          name="retention_days"
          type="number"
          value="0"
          hint="Files are deleted after this many days. 0 keeps them. You can’t change this later."
        />
      </Folded>
      <div class="actions">
        <button>Create directory</button>
        <a href={IMPORT}>Create several from a CSV file</a>
      </div>
    </Form>
  </section>
);
