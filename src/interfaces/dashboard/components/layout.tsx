/** The frame of every page: navigation, title, and messages about the last action. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { DIRECTORIES } from '../directories-view.ts';
import { takeDone } from '../after-redirect.ts';
import {
  type AccessState,
  type DashboardEnv,
  hasAccount,
  isAdmin,
  type PageContext,
  pathOf,
  type Refused,
} from '../environment.ts';
import { maySend } from '../limits.ts';
import { sentencesOf } from '../words.ts';
import { ActionButton } from './form.tsx';
import { Links } from './section.tsx';
import { addressToAllow } from '../../../operating/reports/login-rules.ts';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped, Text } from './text.tsx';
import { NO_KEY } from './directory.tsx';
import { StatusLine } from './status-line.tsx';
import { Badge, Time } from './values.tsx';

interface NavigationItem {
  readonly name: string;
  readonly address: string;
  readonly icon: IconName;
  /** Whether it is of the whole account, and not for those who are limited to directories. */
  readonly isWhole?: true;
}

const NAVIGATION: readonly NavigationItem[] = [
  { name: 'Home', address: '/dashboard', icon: 'overview', isWhole: true },
  { name: 'Directories', address: '/dashboard/directories', icon: 'directories' },
  { name: 'Deliveries', address: '/dashboard/deliveries', icon: 'deliveries' },
  { name: 'Activity', address: '/dashboard/activity', icon: 'activity' },
  { name: 'Settings', address: '/dashboard/account', icon: 'account', isWhole: true },
];

/** The tabs of the settings. */
const SETTINGS = { Account: '/dashboard/account', Team: '/dashboard/team', 'API keys': '/dashboard/api-keys' };

interface LayoutProps {
  /** May be a name that somebody has chosen. */
  readonly title: string;
  /** Confirmations of the last action, by its name in the page's URL. */
  readonly done?: Readonly<Record<string, string>>;
  /** Errors by field, for fields that no form of the page has. */
  readonly problems?: Readonly<Record<string, string>>;
  /** An error that does not belong to a field. */
  readonly problem?: string | undefined;
  /** Whether the page only reports a failure. Going back to the form then fills it in again. */
  readonly isError?: boolean;
}

const Head: FC<{ title: string }> = ({ title }) => (
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>{plainText(title)} · berth</title>
    <link rel="icon" href="/dashboard/static/mark.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/dashboard/static/style.css" />
    <script type="module" src="/dashboard/static/script.js"></script>
  </head>
);

/** The confirmation of the last action, if it succeeded. It can be taken once. */
function noticeOf(c: PageContext, done: LayoutProps['done'] = {}): string | undefined {
  if (c.get('refused')) return undefined;
  // The name may have a count, as in `replayed.850`.
  const [name = '', count] = takeDone(c).split('.', 2);
  return Object.hasOwn(done, name) ? withCount(done[name] ?? '', Number(count)) : undefined;
}

/** The title says first what happened: it is what a screen reader reads of a new page. */
const titleWith = (title: string, { notice, isRefused }: { notice: string | undefined; isRefused: boolean }): string =>
  [...(isRefused ? ['Error:'] : []), ...(notice === undefined ? [] : [notice]), title].join(' ');

/** Says whether the last action succeeded. */
const Messages: FC<Pick<LayoutProps, 'problem' | 'problems'> & { notice: string | undefined }> = ({
  notice,
  problems = {},
  problem,
}) => {
  const refused = useRequestContext<DashboardEnv>().get('refused');
  return (
    <>
      {notice !== undefined && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      <Problems problem={problem ?? refused?.problem} refused={refused} problems={problems} />
    </>
  );
};

function withCount(text: string, count: number): string {
  return text
    .replace('{count}', count.toLocaleString('en'))
    .replace('deliveries', count === 1 ? 'delivery' : 'deliveries');
}

interface ProblemsProps {
  readonly problem: string | undefined;
  readonly refused: Refused | undefined;
  readonly problems: Readonly<Record<string, string>>;
}

/** Errors, which have the focus when the page opens. Each links to its field; errors of fields in `problems` are only sentences. */
const Problems: FC<ProblemsProps> = ({ problem, refused, problems }) => {
  const entries = Object.entries(refused?.errors ?? {});
  const alone = entries.flatMap(([field]) => (Object.hasOwn(problems, field) ? [problems[field] ?? ''] : []));
  const linked = entries
    .filter(([field]) => !Object.hasOwn(problems, field))
    .flatMap(([field, wrong]) =>
      sentencesOf(field, wrong, refused?.given ?? {}).map((sentence) => ({ field, sentence })),
    );
  const [first = alone[0]] = [problem];
  if (first === undefined && linked.length === 0) return <></>;
  return (
    <div class="problem" role="alert" tabindex={-1} autofocus={refused !== undefined}>
      {first !== undefined && <p>{first}</p>}
      {linked.length > 0 && (
        <>
          <p>
            <strong>Nothing was saved. Correct the following:</strong>
          </p>
          <ul>
            {linked.map(({ field, sentence }) => (
              <li>
                <a href={`#${field}`}>{clipped(plainText(sentence), 300)}</a>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
};

/** Names and URLs. */
type Above = readonly (readonly [name: string, address: string])[];

interface TitleProps {
  readonly heading?: string;
  /** Badges beside the title. */
  readonly state?: Child;
  /** The page's main actions, at the end of the title's line. */
  readonly actions?: Child;
  /** The pages above this one. */
  readonly above?: Above;
}

/** For pages that require a session. */
export const Layout: FC<PropsWithChildren<LayoutProps & TitleProps>> = ({
  title,
  heading = title,
  state,
  actions,
  above = [],
  isError = false,
  done,
  children,
  ...messages
}) => {
  const c = useRequestContext<DashboardEnv>();
  const notice = noticeOf(c, done);
  return (
    <html lang="en">
      <Head title={titleWith(title, { notice, isRefused: c.get('refused') !== undefined })} />
      <body
        data-user={c.get('user').userId}
        data-answer={answerMark(c, isError)}
        data-reads={maySend(c, '/') ? undefined : ''}
      >
        <a class="skip" href="#content">
          Skip to the content
        </a>
        <Header c={c} />
        <main id="content">
          <Breadcrumb above={above} />
          <div class="title">
            <h1>{plainText(heading)}</h1>
            {state && <p class="state">{state}</p>}
            {actions}
          </div>
          {!isError && !maySend(c, '/') && (
            <p class="quiet">You may only read. An admin of your account can change that.</p>
          )}
          <Messages notice={notice} {...messages} />
          {children}
        </main>
        <footer data-zone>Times are in UTC.</footer>
      </body>
    </html>
  );
};

/** Marks the answer to a form: the script no longer needs to keep the input. */
const answerMark = (c: PageContext, isError: boolean): '' | undefined =>
  c.req.method === 'POST' && !isError ? '' : undefined;

const Breadcrumb: FC<{ above: Above }> = ({ above }) =>
  above.length === 0 ? (
    <></>
  ) : (
    <nav class="breadcrumb" aria-label="Breadcrumb">
      <ol>
        {above.map(([name, address]) => (
          <li>
            <a href={address}>
              <Text of={name} most={CRUMB_LENGTH} />
            </a>
          </li>
        ))}
      </ol>
    </nav>
  );

const CRUMB_LENGTH = 60;

const Header: FC<{ c: PageContext }> = ({ c }) => {
  const { email, accountName } = c.get('user');
  const isWithin = (address: string) => `${c.req.path}/`.startsWith(`${address}/`);
  const isCurrent = ({ name, address }: NavigationItem) => {
    if (name === 'Settings') return Object.values(SETTINGS).some(isWithin);
    return name === 'Home' ? c.req.path === address : isWithin(address);
  };
  return (
    <header>
      <a class="brand" href="/dashboard">
        <Mark />
        berth
      </a>
      <button type="button" class="plain menu" popovertarget="menu">
        Menu
      </button>
      <div id="menu" popover="auto">
        <form class="find" role="search" aria-label="Everything" action={DIRECTORIES} data-find="/dashboard/find/all">
          <label for="find">
            Find anything <kbd aria-hidden="true">/</kbd>
          </label>
          <input id="find" name="q" type="search" autocomplete="off" maxlength={300} />
        </form>
        <nav aria-label="Main">
          <ul>
            {NAVIGATION.filter(({ isWhole }) => !isWhole || hasAccount(c)).map((item) => (
              <li>
                <a href={item.address} aria-current={isCurrent(item) ? 'page' : undefined}>
                  <Icon name={item.icon} />
                  {item.name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="who">
          <strong>
            <Text of={accountName} />
          </strong>
          <span class="quiet">
            <Text of={email} />
          </span>
          <a href="/dashboard/profile" aria-current={isWithin('/dashboard/profile') ? 'page' : undefined}>
            Profile
          </a>
          <ActionButton action="/dashboard/sign-out" label="Sign out" />
        </div>
      </div>
    </header>
  );
};

/** For the pages of the settings, with their tabs. */
export const SettingsLayout: FC<
  PropsWithChildren<Omit<LayoutProps, 'title'> & Pick<TitleProps, 'actions'> & { tab: keyof typeof SETTINGS }>
> = ({ tab, children, ...others }) => (
  <Layout title={`${tab} · Settings`} heading="Settings" {...others}>
    <Links class="tabs" label="Settings" links={SETTINGS} current={tab} />
    {children}
  </Layout>
);

const TABS = {
  Files: '/files',
  Access: '/access',
  Webhook: '/webhook',
  Activity: '/activity',
  Settings: '/settings',
};

/** The path of a tab by its name, below the directory's. Former names lead to the files. */
export function tabPath(name: string): string {
  return Object.entries(TABS).find(([each]) => each === name)?.[1] ?? TABS.Files;
}

interface DirectoryLayoutProps extends Omit<LayoutProps, 'title'>, Omit<TitleProps, 'heading'> {
  readonly tab: keyof typeof TABS;
  /** The name of a page below a tab, such as a delivery. */
  readonly page?: string;
}

/** For the pages of a directory, with its name as the title, and tabs. */
export const DirectoryLayout: FC<PropsWithChildren<DirectoryLayoutProps>> = ({
  tab,
  page,
  done = {},
  state,
  children,
  ...others
}) => {
  const c = useRequestContext<DashboardEnv>();
  const access = c.get('access');
  const { name } = c.get('directory');
  const tabs = Object.fromEntries(Object.entries(TABS).map(([each, end]) => [each, pathOf(c) + end]));
  const own = [
    [name, pathOf(c)],
    [tab, pathOf(c) + TABS[tab]],
  ] as const;
  const above = [['Directories', DIRECTORIES] as const, ...(page === undefined ? [] : own)];
  const title = [page, tab, name].filter((part) => part !== undefined).join(' · ');
  return (
    <Layout
      title={title}
      heading={name}
      above={above}
      done={{ resumed: 'Resumed. Customers can log in again.', ...done }}
      state={
        <>
          {access.kind !== 'live' && <Badge kind="waiting" text={access.kind === 'no-key' ? NO_KEY : access.kind} />}{' '}
          {state}
        </>
      }
      {...others}
    >
      <StatusLine />
      <Links class="tabs" label="Directory" links={tabs} current={tab} />
      <Closed of={access} tab={tab} />
      {access.kind === 'live' && tab !== 'Access' && <NotAllowed />}
      {children}
    </Layout>
  );
};

/** Says why nobody can log in, and how to change that. */
const Closed: FC<{ of: AccessState; tab: string }> = ({ of: access, tab }) => {
  const c = useRequestContext<DashboardEnv>();
  const path = pathOf(c);
  const mayChange = isAdmin(c);
  if (access.kind === 'live') return <></>;
  if (access.kind === 'no-key')
    return (
      <p class="warning">
        <span>This directory accepts public keys only, and has none. Nobody can log in.</span>
        {mayChange && <a href={`${path}/access#public_key`}>Add a key</a>}
      </p>
    );
  if (access.kind === 'expired')
    return (
      <p class="warning">
        <span>
          Expired <Time at={access.at} />. Nobody can log in.
        </span>
        {mayChange && <a href={`${path}/access#expires_at`}>Change the expiry</a>}
      </p>
    );
  const { at, by } = access;
  return (
    <div class="warning">
      <span>
        Suspended
        {at !== undefined && (
          <>
            {' '}
            <Time at={at} />
          </>
        )}
        {by !== undefined && (
          <>
            {' '}
            by <Text of={by} />
          </>
        )}
        . Nobody can log in.
      </span>
      {mayChange && <ActionButton action={`${path}/resume`} label="Resume" fields={{ tab }} />}
    </div>
  );
};

/** A login that failed only because of its address: the remedy is one click away on every page of the directory. */
const NotAllowed = async () => {
  const c = useRequestContext<DashboardEnv>();
  const { failedLogin } = await c.get('status')();
  const address = failedLogin && addressToAllow(failedLogin);
  if (address === undefined) return <></>;
  return (
    <div class="warning">
      <span>
        A login from {address} failed <Time at={failedLogin?.at ?? null} />: the address is not allowed.{' '}
        <a href={`${pathOf(c)}/access#why`}>See why</a>
      </span>
      {isAdmin(c) && (
        <ActionButton action={`${pathOf(c)}/access/allow`} label={`Allow ${address}`} fields={{ address }} />
      )}
    </div>
  );
};

/** For pages that require no session: one narrow column without navigation. */
export const NarrowLayout: FC<PropsWithChildren<Omit<LayoutProps, 'done'>>> = ({
  title,
  isError = false,
  children,
  ...messages
}) => {
  const c = useRequestContext<DashboardEnv>();
  return (
    <html lang="en">
      <Head title={titleWith(title, { notice: undefined, isRefused: c.get('refused') !== undefined })} />
      <body class="narrow" data-answer={answerMark(c, isError)}>
        <main id="content">
          <p class="brand">
            <Mark />
            berth
          </p>
          <h1>{plainText(title)}</h1>
          <Messages notice={undefined} {...messages} />
          {children}
        </main>
      </body>
    </html>
  );
};

// The icons of the navigation, drawn as strokes on a grid of 16 in the colour of the text beside them; and the mark.

const PATHS = {
  overview: 'M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11',
  directories: 'M1.5 4.5v8h13v-7h-6.5l-1.5-2h-5z',
  deliveries: 'M1.5 8 14.5 2 10.5 14 7.5 9zM7.5 9l3-3',
  activity: 'M1.5 8h3l2-5 3 10 2-5h3',
  account: 'M2.5 14V2h7v12M9.5 6h4v8M1 14h14M5 5h2M5 8h2M5 11h2',
} as const;

type IconName = keyof typeof PATHS;

const Icon: FC<{ name: IconName }> = ({ name }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

/** A ship's berth: a bollard between two quays. The same drawing is the favicon (`static/mark.svg`). */
const Mark: FC = () => (
  <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <rect width="24" height="24" rx="6" />
    <path d="M7 5v8.5a5 5 0 0 0 10 0V5M12 5v9" />
  </svg>
);
