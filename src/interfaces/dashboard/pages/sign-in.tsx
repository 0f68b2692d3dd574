/** Signing in, by email and password or by a link to the company's login, then a code; and signing out. */
import type { Hono } from 'hono';
import type { Database } from '../../../foundation/db/open.ts';
import { wrongField } from '../../../foundation/base/errors.ts';
import { type FactorContext, signInWithCode } from '../../../rules/users/second-factor.ts';
import { endUserSession } from '../../../rules/users/sessions.ts';
import type { SignIn } from '../../../rules/users/sign-in.ts';
import { ActionButton, CodeField, Field, Form, PasswordField } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { type DashboardEnv, type PageContext, visitorOf } from '../environment.ts';
import { formFields, submitted } from '../form.ts';
import { clearSession, HOST_COOKIE, nextPage, startSession, withNext } from '../session-cookie.ts';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { plainText } from '../../../foundation/base/text.ts';

const SIGN_IN = '/dashboard/sign-in';
const CODE = `${SIGN_IN}/code`;
const SIGN_OUT = '/dashboard/sign-out';

const PROBLEMS = { entry: 'The email or the password is wrong.' };
const CODE_PROBLEMS = { code: 'The code is wrong or has already been used. Enter a new one.' };

interface WaysIn {
  /** Signs in with a password; undefined if that is turned off. */
  readonly signIn: SignIn | undefined;
  /** The path of the company's login, if there is one. */
  readonly companyLogin: string | undefined;
}

export function signInPage(
  app: Hono<DashboardEnv>,
  database: Pick<Database, 'db'>,
  { signIn, companyLogin }: WaysIn,
): void {
  const page = (c: PageContext) =>
    c.render(
      <NarrowLayout title="Sign in" problems={PROBLEMS}>
        {c.req.query('ended') !== undefined && <p>Your session has ended. Sign in to continue.</p>}
        {signIn && (
          <Form action={withNext(SIGN_IN, nextPage(c))}>
            <Field label="Email" name="email" type="email" autocomplete="username" isRequired isFirst />
            <PasswordField label="Password" name="password" autocomplete="current-password" isRequired />
            <button>Sign in</button>
          </Form>
        )}
        {companyLogin !== undefined && (
          <p>
            <a href={withNext(companyLogin, nextPage(c))}>Sign in with SSO</a>
          </p>
        )}
        {signIn && <p class="quiet">No password yet, or forgotten it? Ask an admin of your account for a new link.</p>}
      </NarrowLayout>,
    );

  app.get(SIGN_IN, (c) => {
    const visitor = visitorOf(c);
    return visitor && !visitor.awaitsCode ? c.redirect(nextPage(c), 303) : page(c);
  });

  if (!signIn) return;

  app.post(SIGN_IN, (c) =>
    submitted(c, page, async ({ email = '', password = '' }) => {
      const entered = await signIn({ email, password }, c.get('visit'));
      if (!entered) throw wrongField('entry', 'invalid');
      if ('choice' in entered) return askForAccount(c, entered.choice, nextPage(c));
      return startSession(c, database, entered, nextPage(c));
    }),
  );
  chooseAccountPage(app, signIn, database);
}

/** The second step, which replaces the session by a new one. */
export function signInCodePage(app: Hono<DashboardEnv>, context: FactorContext): void {
  const page = (c: PageContext) =>
    c.render(
      <NarrowLayout title="Enter your code" problems={CODE_PROBLEMS}>
        <Form>
          <CodeField hint="The six digits in your app, or one of your recovery codes." isRequired isFirst />
          <button>Sign in</button>
        </Form>
        <p class="quiet">Lost both? Ask another admin, or the operator of this server, to reset it.</p>
        <ActionButton action={SIGN_OUT} label="Use another account" />
      </NarrowLayout>,
    );

  app.get(CODE, (c) => (c.get('user').awaitsCode ? page(c) : c.redirect(nextPage(c), 303)));

  app.post(CODE, (c) =>
    submitted(c, page, async ({ code = '' }) => {
      const user = c.get('user');
      if (!user.awaitsCode) return nextPage(c);
      const token = await signInWithCode(context, user, { code, visit: c.get('visit') });
      return startSession(c, context.database, { token, awaitsCode: false }, nextPage(c));
    }),
  );
}

export function signOut(app: Hono<DashboardEnv>, { db }: Pick<Database, 'db'>): void {
  app.post(SIGN_OUT, async (c) => {
    const { userId, sessionId } = c.get('user');
    await endUserSession(db, userId, sessionId);
    clearSession(c);
    return c.redirect(SIGN_IN, 303);
  });
}

// Asks for the account to sign in to, if email and password are right for several.

const PATH = `${SIGN_IN}/account`;
const COOKIE = 'berth-choice';
/** The choice itself is valid for as long. */
const MAX_AGE_SECONDS = 600;

/** Passes the choice to the page that asks. @returns the URL of that page. */
function askForAccount(c: PageContext, choice: string, next: string): string {
  setCookie(c, COOKIE, choice, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
  return withNext(PATH, next);
}

function chooseAccountPage(app: Hono<DashboardEnv>, signIn: SignIn, database: Pick<Database, 'db'>): void {
  const choiceOf = (c: PageContext): string => getCookie(c, COOKIE, 'host') ?? '';

  app.get(PATH, async (c) => {
    const accounts = await signIn.accounts(choiceOf(c));
    if (!accounts) return c.redirect(withNext(SIGN_IN, nextPage(c)), 303);
    return c.render(
      <NarrowLayout title="Choose an account">
        <p>Your email and password match several accounts.</p>
        <Form action={withNext(PATH, nextPage(c))}>
          <div class="actions">
            {accounts.map(({ id, accountName }) => (
              <button name="user" value={id}>
                {plainText(accountName)}
              </button>
            ))}
          </div>
        </Form>
        <p>
          <a href={SIGN_IN}>Sign in with another email</a>
        </p>
      </NarrowLayout>,
    );
  });

  app.post(PATH, async (c) => {
    const { user = '' } = await formFields(c);
    const entered = await signIn.choose(choiceOf(c), user, c.get('visit'));
    deleteCookie(c, COOKIE, HOST_COOKIE);
    const next = nextPage(c);
    return c.redirect(entered ? await startSession(c, database, entered, next) : withNext(SIGN_IN, next), 303);
  });
}
