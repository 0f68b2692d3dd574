/** The frame of every page: navigation, the page's title, and what happened just before. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import type { DashboardEnv } from '../environment.ts';
import { ActionButton } from './form.tsx';
import { plainText, Text } from './text.tsx';

const NAVIGATION = {
  '/dashboard': 'Overview',
  '/dashboard/directories': 'Directories',
  '/dashboard/api-keys': 'API keys',
  '/dashboard/team': 'Team',
  '/dashboard/account': 'Account',
  '/dashboard/profile': 'Profile',
} as const;

interface LayoutProps {
  /** May be a name that somebody has chosen. */
  readonly title: string;
  /** What has just been done: shown to all readers, and read out. */
  readonly notice?: string | undefined;
  /** What went wrong. */
  readonly problem?: string | undefined;
}

interface TitleProps {
  /** One sentence about the page. */
  readonly about?: string;
  /** Beside the title: what people come here to do. */
  readonly actions?: Child;
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

const Messages: FC<Pick<LayoutProps, 'notice' | 'problem'>> = ({ notice, problem }) => (
  <>
    {notice !== undefined && (
      <p class="notice" role="status">
        {notice}
      </p>
    )}
    {problem !== undefined && (
      <p class="problem" role="alert">
        {problem}
      </p>
    )}
  </>
);

/** For somebody who is signed in. */
export const Layout: FC<PropsWithChildren<LayoutProps & TitleProps>> = ({
  title,
  notice,
  problem,
  about,
  actions,
  children,
}) => {
  const c = useRequestContext<DashboardEnv>();
  const { email, accountName } = c.get('user');
  const current = Object.keys(NAVIGATION).findLast((path) => c.req.path === path || c.req.path.startsWith(`${path}/`));
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
          <nav aria-label="Main">
            <ul>
              {Object.entries(NAVIGATION).map(([path, name]) => (
                <li>
                  <a href={path} aria-current={path === current ? 'page' : undefined}>
                    {name}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
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
            {about !== undefined && <p class="quiet">{about}</p>}
          </div>
          <Messages notice={notice} problem={problem} />
          {children}
        </main>
        <footer data-zone>Times are in UTC.</footer>
      </body>
    </html>
  );
};

/** For somebody who is not: one narrow column. */
export const NarrowLayout: FC<PropsWithChildren<LayoutProps>> = ({ title, notice, problem, children }) => (
  <html lang="en">
    <Head title={title} />
    <body class="narrow">
      <main id="content">
        <p class="brand">berth</p>
        <h1>{plainText(title)}</h1>
        <Messages notice={notice} problem={problem} />
        {children}
      </main>
    </body>
  </html>
);
