/** All directories of the account, with a form for a new one. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { DIRECTORY_LIMITS } from '../../accounts/plans.ts';
import { type CreateOptions, createDirectory } from '../../directories/create.ts';
import { DirectoryState, MoreFields, NameField } from '../components/directory.tsx';
import { Field, Folded, Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Folding, Pager } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Name } from '../components/text.tsx';
import { counted, Size, Time } from '../components/values.tsx';
import { addressOf, columnOf, DIRECTORIES, listingIn, sortOf } from '../directories-view.ts';
import { actorOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { numberIn, submitted, textOrNull } from '../form.ts';
import { directoryPage, type Listing } from '../queries/directories.ts';
import { storedIn } from '../queries/overview.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { showOnce } from '../after-redirect.ts';

const DONE = { deleted: 'The directory and its files are deleted.' };

export function directoriesPage(app: Hono<DashboardEnv>, rules: CreateOptions): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const listing = listingIn(c.req.query());
    const { rows, previous, next } = await directoryPage(reads, c.get('user').principal.accountId, listing);
    const ids = rows.map(({ id }) => id);
    const failing = await failingWebhooks(reads, ids);
    const now = rules.clock.now();
    const { plan, accountId } = c.get('user').principal;
    const limit = DIRECTORY_LIMITS[plan];
    const isFull = limit !== undefined && (await storedIn(reads, accountId)).directories >= limit;
    const isNew = rows.length === 0 && listing.search === '' && !listing.after && !listing.before;
    const start = { ...listing, after: undefined, before: undefined };
    return c.render(
      <Layout title="Directories" done={DONE}>
        {isFull ? <Full limit={limit} /> : <NewDirectory isOpen={isNew} />}
        {!isNew && <Search listing={listing} />}
        <Table
          caption="Directories of your account"
          columns={[
            columnOf(start, 'name', 'Name'),
            'Username',
            { ...columnOf(start, 'storage', 'Storage'), kind: 'number' },
            columnOf(start, 'upload', 'Last upload'),
            columnOf(start, 'created', 'Created'),
            'State',
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
              Create the first one above. Its customer can log in over SFTP at once.
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

  app.post(DIRECTORIES, (c) =>
    submitted(c, page, async ({ name, description, external_id, retention_days, max_connections }) => {
      const fields = {
        name,
        description: textOrNull(description),
        external_id: textOrNull(external_id),
        retention_days: numberIn(retention_days),
        max_connections: numberIn(max_connections),
      };
      const { accountId } = c.get('user').principal;
      const { directory, password } = await createDirectory(rules, accountId, fields, actorOf(c));
      const made = `${DIRECTORIES}/${directory.id}/connect`;
      showOnce(c, { kind: 'sftp-password', value: password, page: made });
      return `${made}?done=created`;
    }),
  );
}

const Search: FC<{ listing: Listing }> = ({ listing }) => (
  <form class="toolbar" role="search">
    <input type="hidden" name="sort" value={sortOf(listing)} />
    <Field label="Search" name="q" type="search" value={listing.search} placeholder="Name, username or external id" />
    <button class="plain">Search</button>
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
const NewDirectory: FC<{ isOpen: boolean }> = ({ isOpen }) => (
  <Folding title="New directory" isOpen={isOpen}>
    <p class="quiet">It works immediately. You’ll get a username and a password.</p>
    <Form action={DIRECTORIES}>
      <NameField hint="A customer or a purpose, such as Acme Corp." />
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
      <button>Create directory</button>
    </Form>
  </Folding>
);
