/** What happened in the account, or in one of its directories: who is connected now, and the history, newest first. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { Child, FC } from 'hono/jsx';
import { DAY, parseMicros, SECOND } from '../../../foundation/base/clock.ts';
import { endSession } from '../../../rules/directories/end-session.ts';
import {
  type ActivityEntry,
  type ActivityPage,
  activityPage as pageFrom,
  type ActivityPlace,
  type KnownAttempt,
  type Topic,
  TOPICS,
} from '../../../operating/reports/activity.ts';
import { sentenceOf } from '../../../rules/history/sentences.ts';
import { Candidates } from '../components/directory.tsx';
import { ActionButton, Field } from '../components/form.tsx';
import { DirectoryLayout, Layout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Name, Text } from '../components/text.tsx';
import { counted, sizeInWords, spanInWords, Time } from '../components/values.tsx';
import { csvAnswer, timeCell } from '../csv.ts';
import { type DashboardEnv, directoryIn, isAdmin, type PageContext, pathOf, targetOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { type Live, renderedIn } from '../live.tsx';
import { directoryMeant } from '../../../operating/reports/named.ts';
import { type DirectoryEntry, directoriesOfUsers, namesOf, NO_DIRECTORY } from '../../../rules/directories/view.ts';
import { deliveriesOf } from '../directories-view.ts';

export const ACTIVITY = '/dashboard/activity';
const PAGE = 50;
/** Entries that are read at once for an export. */
const CSV_BATCH = 200;
const CSV_HEADER = 'at,directory_id,username,kind,who,address,what,route,request_id,changes'.split(',');
/** How often the page looks for changes that nothing reports. */
const POLL_MS = 5000;
/** How many live sessions are listed, the newest ones. */
const MOST_LISTED = 200;

const DONE = { ended: 'The session has ended. Its client may connect again.' };

/** About how many characters are shown of a file's path and of a verb with its object. */
const PATH_LENGTH = 250;
const VERB_LENGTH = 600;
/** How many characters of a name the links search for. */
const SEARCHED_LENGTH = 30;
/** A login belongs to the session that begins this soon after it. */
const SOON = 10 * SECOND;

/** What a page shows, by its URL. */
interface View {
  readonly directory?: { readonly id: string; readonly username?: string } | undefined;
  /** Set if the text for the directory does not name exactly one: those that it may mean. */
  readonly candidates?: readonly DirectoryEntry[];
  readonly topic: Topic | undefined;
  readonly search: string | undefined;
  readonly before: ActivityPlace | undefined;
}

export function activityPage(app: Hono<DashboardEnv>, context: AppContext, live: Live): void {
  const { database, clock, sessions, logins } = context;
  const { reads } = database;

  async function viewOf(c: PageContext): Promise<View> {
    const { directory: wanted = '', q = '', topic, before } = c.req.query();
    const view = {
      topic: TOPICS.find((each) => each === topic),
      search: q.trim() === '' ? undefined : q.trim(),
      before: placeIn(before),
    };
    const own = directoryIn(c);
    if (own) return { ...view, directory: { id: own.id, username: own.sftp_username } };
    const { principal } = c.get('user');
    if (wanted.trim() === '' && !principal.scope.directories) return view;
    const meant = await directoryMeant(reads, principal, wanted.trim());
    return 'id' in meant
      ? { ...view, directory: meant }
      : { ...view, directory: { id: NO_DIRECTORY }, candidates: meant.candidates };
  }

  /** The attempts that are not in a row yet; undefined while sshd's log is not read. */
  async function unwritten(c: PageContext, { directory }: View): Promise<KnownAttempt[] | undefined> {
    const all = logins.allUnwritten();
    if (!all) return undefined;
    const owners = await directoriesOfUsers(reads, c.get('user').principal.accountId, [...all.keys()]);
    return owners
      .filter(({ id }) => directory === undefined || directory.id === id)
      .flatMap(({ id, sftp_username: username }) =>
        (all.get(username) ?? []).map((attempt) => ({ ...attempt, directory_id: id, username })),
      );
  }

  // Without a place in the URL, the page begins with the newest entry: a day from now, in case the clock was set back.
  const start = (): ActivityPlace => ({ at: clock.now() + DAY, skip: 0 });

  async function pageOf(c: PageContext, view: View, from: ActivityPlace, limit: number): Promise<ActivityPage> {
    const { topic, search, directory } = view;
    const { accountId } = c.get('user').principal;
    const attempts = (await unwritten(c, view)) ?? [];
    return pageFrom(reads, { accountId, directoryId: directory?.id, unwritten: attempts, topic, search, from, limit });
  }

  async function listOf(c: PageContext, view: View, { entries }: ActivityPage) {
    const { accountId } = c.get('user').principal;
    const names = await namesOf(reads, accountId, [...new Set(entries.map(({ directoryId }) => directoryId))]);
    return (
      <>
        {view.before === undefined && view.search === undefined && (
          <Section title="Connected now">{await connected(c, view)}</Section>
        )}
        {logins.allUnwritten() === undefined && view.topic !== 'files' && view.topic !== 'changes' && (
          <p class="quiet">The latest logins are missing: berth hasn’t found sshd’s log.</p>
        )}
        <History of={entries} names={directoryIn(c) ? undefined : names} />
      </>
    );
  }

  async function connected(c: PageContext, { directory }: View) {
    const { accountId } = c.get('user').principal;
    const owners = await directoriesOfUsers(
      reads,
      accountId,
      directory?.username === undefined ? sessions.usernames() : [directory.username],
    );
    const all = owners
      .filter(({ id }) => directory === undefined || directory.id === id)
      .flatMap(({ id, name, sftp_username }) => sessions.of(sftp_username).map((session) => ({ id, name, session })))
      .toSorted((a, b) => b.session.since - a.session.since)
      .slice(0, MOST_LISTED);
    const isOne = directoryIn(c) !== undefined;
    const mayEnd = isAdmin(c);
    return (
      <Table
        caption="Who is connected now, newest first"
        columns={[...(isOne ? [] : ['Directory']), 'Address', 'Since', ...(mayEnd ? ['Actions'] : [])]}
        rows={all.map(({ id, name, session }) => [
          ...(isOne ? [] : [<Name of={name} href={`/dashboard/directories/${id}/activity`} />]),
          session.address,
          <Time at={session.since} />,
          ...(mayEnd
            ? [
                <ActionButton
                  action={`${c.req.path.replace(/\/events$/, '')}/end-session`}
                  label="End"
                  kind="danger"
                  about={`session of ${name}`}
                  fields={{ directory: id, session: session.name }}
                  confirm="Transfers that are under way are cut off. The client may connect again."
                />,
              ]
            : []),
        ])}
      >
        <p class="quiet">Nobody is connected.</p>
      </Table>
    );
  }

  async function page(c: PageContext) {
    const view = await viewOf(c);
    const query = c.req.query();
    const address = (more: Readonly<Record<string, string | undefined>>): string => {
      const { topic, q, directory } = query;
      const known = Object.entries({ topic, q, directory, ...more }).filter((each): each is [string, string] =>
        Boolean(each[1]),
      );
      return `${c.req.path}?${new URLSearchParams(known).toString()}`;
    };
    const topics = ['All', ...TOPICS.map(capitalized)];
    const body = async () => {
      if (view.candidates)
        return (
          <Candidates
            of={view.candidates}
            text={query['directory'] ?? ''}
            addressOf={(directory) => address({ directory })}
          />
        );
      const found = await pageOf(c, view, view.before ?? start(), PAGE);
      // A search reads too much to be repeated all the time.
      const events = view.search === undefined ? `${c.req.path}/events${new URL(c.req.url).search}` : undefined;
      return (
        <>
          <div data-live={events}>{await listOf(c, view, found)}</div>
          <Pager
            of="the history"
            first={view.before && address({})}
            next={found.next && address({ before: `${found.next.at}.${found.next.skip}` })}
          />
        </>
      );
    };
    const content = (
      <>
        <form class="toolbar" role="search" aria-label="Activity">
          {view.topic !== undefined && <input type="hidden" name="topic" value={view.topic} />}
          <Field label="File, person or address" name="q" type="search" value={query['q'] ?? ''} />
          {!directoryIn(c) && (
            <Field
              label="Directory"
              name="directory"
              value={query['directory'] ?? ''}
              placeholder="Name or ID"
              suggests="/dashboard/find"
            />
          )}
          <button class="plain">Search</button>
          {(view.search !== undefined || query['directory']) && (
            <a href={address({ q: undefined, directory: undefined })}>Clear</a>
          )}
          <a href={`${c.req.path}/export.csv${address({}).slice(c.req.path.length)}`}>Export as CSV</a>
        </form>
        <Links
          class="views"
          label="Topics"
          links={Object.fromEntries(
            topics.map((name) => [name, address({ topic: name === 'All' ? undefined : name.toLowerCase() })]),
          )}
          current={capitalized(view.topic ?? 'all')}
        />
        {await body()}
      </>
    );
    return c.render(
      directoryIn(c) ? (
        <DirectoryLayout tab="Activity" done={DONE}>
          {content}
        </DirectoryLayout>
      ) : (
        <Layout title="Activity" done={DONE}>
          {content}
        </Layout>
      ),
    );
  }

  async function* csvRows(c: PageContext, view: View) {
    for (let next: ActivityPlace | undefined = start(); next;) {
      const found: ActivityPage = await pageOf(c, view, next, CSV_BATCH);
      for (const entry of found.entries) {
        const { at, directoryId, username, kind, who, address, request } = entry;
        const what = sentenceOf({ ...entry, who: '', address: null }).trim();
        const { route = '', id = '', changes = '' } = request ?? {};
        yield [timeCell(at), directoryId, username, kind, who, address, what, route, id, changes];
      }
      next = found.next;
    }
  }

  for (const path of [ACTIVITY, '/dashboard/directories/:id/activity']) {
    app.get(path, page);

    app.get(`${path}/events`, async (c) => {
      const view = await viewOf(c);
      const own = directoryIn(c);
      return live(c, { ...(own && { directoryId: own.id }), everyMs: POLL_MS }, async () =>
        renderedIn(c, await listOf(c, view, await pageOf(c, view, view.before ?? start(), PAGE))),
      );
    });

    app.get(`${path}/export.csv`, async (c) => {
      const view = await viewOf(c);
      return csvAnswer('activity', CSV_HEADER, csvRows(c, view));
    });

    app.post(`${path}/end-session`, adminOnly, async (c) => {
      const { directory = '', session = '' } = await formFields(c);
      await endSession(context, targetOf(c, directoryIn(c)?.id ?? directory), session);
      return c.redirect(`${directoryIn(c) ? `${pathOf(c)}/activity` : ACTIVITY}?done=ended`, 303);
    });
  }
}

function placeIn(text: string | undefined): ActivityPlace | undefined {
  const [, at, skip] = /^(\d{1,16})\.(\d{1,4})$/.exec(text ?? '') ?? [];
  return at === undefined ? undefined : { at: Number(at), skip: Number(skip) };
}

/** A session with what happened in it, newest first. */
interface SessionOfEntries {
  readonly entries: ActivityEntry[];
  /** The login that began it. */
  login?: ActivityEntry;
}

/** Puts the entries of each session together, at the place of its newest. */
function bySession(entries: readonly ActivityEntry[]): (ActivityEntry | SessionOfEntries)[] {
  const all: (ActivityEntry | SessionOfEntries)[] = [];
  const open = new Map<string, SessionOfEntries>();
  const begun: SessionOfEntries[] = [];
  for (const entry of entries) {
    const { session, event, kind, directoryId, address, at } = entry;
    if (session === undefined) {
      const own =
        kind === 'login' &&
        begun.find(({ login, entries: [...of] }) => {
          const first = of.at(-1);
          return !login && first?.directoryId === directoryId && first.address === address && first.at - at < SOON;
        });
      if (own) own.login = entry;
      else all.push(entry);
      continue;
    }
    const known = open.get(session);
    const of = known ?? { entries: [] };
    if (!known) {
      all.push(of);
      open.set(session, of);
    }
    of.entries.push(entry);
    // The process's number may be another session's before that.
    if (event === 'session-opened') {
      open.delete(session);
      begun.push(of);
    }
  }
  return all;
}

/** `9 files uploaded`, by the event; the others are named one by one. */
const COUNTED: Readonly<Partial<Record<NonNullable<ActivityEntry['event']>, string>>> = {
  uploaded: 'uploaded',
  received: 'sent',
  downloaded: 'downloaded',
  renamed: 'renamed',
  removed: 'deleted',
  'upload-dropped': 'cut off',
  'download-dropped': 'downloaded in part',
};

const History: FC<{ of: readonly ActivityEntry[]; names: ReadonlyMap<string, string> | undefined }> = ({
  of,
  names,
}) => (
  <Table
    caption="Newest first"
    isCompact
    columns={['What', ...(names ? ['Directory'] : []), 'When']}
    rows={bySession(of).map((each) => {
      const newest = 'entries' in each ? each.entries[0] : each;
      return [
        'entries' in each ? <SessionSentence of={each} /> : <Sentence of={each} />,
        ...(names ? [<Where of={newest} names={names} />] : []),
        <Time at={newest?.at ?? null} />,
      ];
    })}
  >
    <Empty title="Nothing found">Logins, files and changes appear here.</Empty>
  </Table>
);

const Where: FC<{ of: ActivityEntry | undefined; names: ReadonlyMap<string, string> }> = ({ of, names }) => {
  const name = names.get(of?.directoryId ?? '');
  if (name !== undefined) return <Name of={name} href={`/dashboard/directories/${of?.directoryId}`} />;
  return of?.username ? <Text of={of.username} /> : '';
};

/** The last part of a path, short enough for a URL. */
const searchFor = (path: string): string =>
  encodeURIComponent((path.split('/').at(-1) ?? '').slice(0, SEARCHED_LENGTH).toWellFormed());

const Sentence: FC<{ of: ActivityEntry }> = ({ of: entry }) => (
  <div class={entry.kind === 'refused' ? 'sentence bad' : 'sentence'}>
    <Who of={entry} /> <Deed of={entry} />
  </div>
);

const Who: FC<{ of: Pick<ActivityEntry, 'who' | 'address'> }> = ({ of: { who, address } }) => (
  <>
    {who.includes('@') ? (
      <a href={`${ACTIVITY}?q=${encodeURIComponent(who)}`}>
        <Text of={who} />
      </a>
    ) : (
      <Text of={who} />
    )}
    {address !== null && (
      <>
        {' '}
        (<Text of={address} />)
      </>
    )}
  </>
);

/** A time in a sentence of the history, not in a name. */
const TIME = /(?<=set the expiry to )(\d{4}-\d\d-\d\d \d\d:\d\d) UTC/;

/** A text whose times are in the reader's zone, like all others. */
const WithTimes: FC<{ of: string }> = ({ of }) => (
  <>
    {of.split(TIME).map((part, index) => {
      const at = index % 2 === 1 ? parseMicros(`${part.replace(' ', 'T')}:00Z`) : undefined;
      return at === undefined ? <Text of={part} most={VERB_LENGTH} /> : <Time at={at} isExact />;
    })}
  </>
);

/** The verb with its object, which links to the file. */
const Deed: FC<{ of: ActivityEntry }> = ({ of: { verb, path, end, bytes, directoryId, event } }) => (
  <>
    <WithTimes of={verb} />
    {path !== undefined && (
      <>
        {' '}
        <a href={`/dashboard/directories/${directoryId}/files?q=${searchFor(path)}`}>
          <Text of={path} most={PATH_LENGTH} />
        </a>
      </>
    )}
    {end !== undefined && <Text of={end} most={PATH_LENGTH} />}
    {bytes !== null && bytes !== undefined && ` (${sizeInWords(bytes)})`}
    {event === 'uploaded' && path !== undefined && (
      <>
        {' '}
        <a class="quiet" href={`${deliveriesOf(directoryId)}&file=${searchFor(path)}`}>
          webhook
        </a>
      </>
    )}
  </>
);

/** One line for a session; what happened in it is folded, unless that is one thing. */
const SessionSentence: FC<{ of: SessionOfEntries }> = ({ of: { entries, login } }) => {
  const files = entries.filter(({ kind }) => kind === 'file');
  const [newest] = entries;
  const closed = entries.find(({ event }) => event === 'session-closed');
  const parts: Child[] = [];
  if (login) parts.push(login.verb);
  else if (closed) parts.push('was connected');
  else if (entries.some(({ event }) => event === 'session-opened')) parts.push('connected');
  const lasted =
    typeof closed?.began === 'number' ? `${parts.length > 0 ? ', ' : ''}${spanInWords(closed.at - closed.began)}` : '';
  const [only] = files;
  const counts = new Map<string, number>();
  for (const { event } of files) {
    const word = (event && COUNTED[event]) ?? 'changed';
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const summary = Array.from(counts, ([word, count], index) =>
    index === 0 ? `${counted(count)} ${count === 1 ? 'file' : 'files'} ${word}` : `${counted(count)} ${word}`,
  );
  return (
    <div class="sentence">
      {newest && <Who of={newest} />} {parts}
      {lasted}
      {files.length > 0 && (parts.length > 0 || lasted !== '') && ': '}
      {files.length === 1 && only ? (
        <Deed of={only} />
      ) : (
        files.length > 0 && (
          <details id={`s-${newest?.session?.replaceAll(' ', '-')}-${entries.at(-1)?.at}`}>
            <summary>{summary.join(', ')}</summary>
            <ul>
              {files.map((file) => (
                <li>
                  <Deed of={file} />
                </li>
              ))}
            </ul>
          </details>
        )
      )}
    </div>
  );
};
