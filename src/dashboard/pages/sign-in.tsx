/** Where people sign in: with email and password, or on to their company's login. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Database } from '../../db/open.ts';
import { BerthError } from '../../errors.ts';
import type { SignIn } from '../../users/sign-in.ts';
import { Field, Form } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { type DashboardEnv, type PageContext, visitorOf } from '../environment.ts';
import { formFields } from '../form.ts';
import { nextPage, startSession, withNext } from '../start-session.ts';

const WRONG = 'The email or the password is wrong.';
const TOO_MANY = 'There were too many attempts. Wait a minute and try again.';

interface WaysIn {
  /** With a password; undefined when that is switched off. */
  readonly signIn: SignIn | undefined;
  /** The path where signing in with the company's login begins, if there is one. */
  readonly companyLogin: string | undefined;
}

export function signInPage(
  app: Hono<DashboardEnv>,
  database: Pick<Database, 'db'>,
  { signIn, companyLogin }: WaysIn,
): void {
  const ways = { hasPassword: signIn !== undefined, companyLogin };
  app.get('/dashboard/sign-in', (c) => {
    const next = nextPage(c);
    const visitor = visitorOf(c);
    if (visitor && !visitor.awaitsCode) return c.redirect(next, 303);
    return c.render(<SignInPage next={next} {...ways} />);
  });

  if (!signIn) return;

  app.post('/dashboard/sign-in', async (c) => {
    const { email = '', password = '' } = await formFields(c);
    const next = nextPage(c);
    const entered = await attempt(c, () => signIn({ email, password }, c.get('visit')));
    if (typeof entered === 'object') return startSession(c, database, entered, next);
    return c.render(<SignInPage next={next} {...ways} email={email} problem={entered} />);
  });
}

/** What comes of it, or what was wrong, with its status. */
async function attempt<T extends object>(c: PageContext, work: () => Promise<T | undefined>): Promise<T | string> {
  try {
    const entered = await work();
    if (entered) return entered;
    c.status(422);
    return WRONG;
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== 'rate_limited') throw error;
    c.status(429);
    return TOO_MANY;
  }
}

const SignInPage: FC<{
  next: string;
  hasPassword: boolean;
  companyLogin: string | undefined;
  email?: string;
  problem?: string;
}> = ({ next, hasPassword, companyLogin, email, problem }) => (
  <NarrowLayout title="Sign in" problem={problem}>
    {hasPassword && (
      <Form action={withNext('/dashboard/sign-in', next)}>
        <Field label="Email" name="email" type="email" value={email} autocomplete="username" isRequired />
        <Field label="Password" name="password" type="password" autocomplete="current-password" isRequired />
        <button>Sign in</button>
      </Form>
    )}
    {companyLogin !== undefined && (
      <p>
        <a href={withNext(companyLogin, next)}>Sign in with your company</a>
      </p>
    )}
    {hasPassword && <p class="quiet">No password, or forgotten? Ask an admin of your account for a new link.</p>}
  </NarrowLayout>
);
