/** The frame of every page: navigation, the page's title, and what happened just before. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { type DashboardEnv, pathOf } from '../environment.ts';
import { ActionButton } from './form.tsx';
import { Links } from './section.tsx';
import { plainText, Text } from './text.tsx';

const NAVIGATION = {
  Overview: '/dashboard',
  Directories: '/dashboard/directories',
  'API keys': '/dashboard/api-keys',
  Team: '/dashboard/team',
  Account: '/dashboard/account',
  Profile: '/dashboard/profile',
};

interface LayoutProps {
  /** May be a name that somebody has chosen. */
  readonly title: string;
  /** What was done just before, by the word for it in the page's address. */
  readonly done?: Readonly<Record<string, string>>;
  /** What is wrong, by fields that no form of the page shows. */
  readonly problems?: Readonly<Record<string, string>>;
  /** What is wrong at any rate. */
  readonly problem?: string | undefined;
}

const Head: FC<{ title: string }> = ({ title }) => (
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>{plainText(title)} · berth</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="/dashboard/static/style.css" />
    <script src="/dashboard/static/script.js" defer></script>
  </head>
);

/** What was done or refused just before: read out, too. */
const Messages: FC<Omit<LayoutProps, 'title'>> = ({ done = {}, problems = {}, problem }) => {
  const c = useRequestContext<DashboardEnv>();
  const refused = c.get('refused');
  const word = c.req.query('done') ?? '';
  const notice = !refused && Object.hasOwn(done, word) ? done[word] : undefined;
  const wrong = Object.keys(refused?.errors ?? {}).find((field) => Object.hasOwn(problems, field));
  const shown = problem ?? refused?.problem ?? (wrong && problems[wrong]);
  return (
    <>
      {notice !== undefined && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      {shown !== undefined && (
        <p class="problem" role="alert">
          {shown}
        </p>
      )}
    </>
  );
};

/** For somebody who is signed in. `actions` stand beside the title: what people come here to do. */
export const Layout: FC<PropsWithChildren<LayoutProps & { actions?: Child }>> = ({
  title,
  actions,
  children,
  ...messages
}) => {
  const c = useRequestContext<DashboardEnv>();
  const { email, accountName } = c.get('user');
  const isHere = (path: string) => `${c.req.path}/`.startsWith(`${path}/`);
  const [current] = Object.entries(NAVIGATION).findLast(([, path]) => isHere(path)) ?? [];
  return (
    <html lang="en">
      <Head title={title} />
      <body>
        <a class="skip" href="#content">
          Skip to the content
        </a>
        <header>
          <a class="brand" href="/dashboard">
            berth
          </a>
          <Links label="Main" links={NAVIGATION} current={current} />
          <div class="who">
            <Text of={accountName} />
            <span class="quiet">
              <Text of={email} />
            </span>
            <ActionButton action="/dashboard/sign-out" label="Sign out" />
          </div>
        </header>
        <main id="content">
          <div class="title">
            <h1>{plainText(title)}</h1>
            {actions}
          </div>
          <Messages {...messages} />
          {children}
        </main>
        <footer data-zone>Times are in UTC.</footer>
      </body>
    </html>
  );
};

const TABS = { Overview: '', Webhook: '/webhook', Files: '/files', Activity: '/activity' };

/** For the pages of a directory: its name, and the way between them. */
export const DirectoryLayout: FC<PropsWithChildren<Omit<LayoutProps, 'title'> & { tab: keyof typeof TABS }>> = ({
  tab,
  children,
  ...messages
}) => {
  const c = useRequestContext<DashboardEnv>();
  const { name } = c.get('directory');
  const tabs = Object.fromEntries(Object.entries(TABS).map(([each, end]) => [each, pathOf(c) + end]));
  return (
    <Layout title={tab === 'Overview' ? name : `${name}: ${tab}`} {...messages}>
      <Links class="tabs" label="Directory" links={tabs} current={tab} />
      {children}
    </Layout>
  );
};

/** For somebody who is not: one narrow column. */
export const NarrowLayout: FC<PropsWithChildren<LayoutProps>> = ({ title, children, ...messages }) => (
  <html lang="en">
    <Head title={title} />
    <body class="narrow">
      <main id="content">
        <p class="brand">berth</p>
        <h1>{plainText(title)}</h1>
        <Messages {...messages} />
        {children}
      </main>
    </body>
  </html>
);
