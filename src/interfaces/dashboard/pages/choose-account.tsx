/** Asks for the account to sign in to, if email and password are right for several. */
import type { Hono } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { Database } from '../../../foundation/db/open.ts';
import type { SignIn } from '../../../rules/users/sign-in.ts';
import { Form } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { plainText } from '../../../foundation/base/hidden-characters.ts';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { HOST_COOKIE, nextPage, startSession, withNext } from '../session-cookie.ts';

const SIGN_IN = '/dashboard/sign-in';
const PATH = `${SIGN_IN}/account`;
const COOKIE = 'berth-choice';
/** The choice itself is valid for as long. */
const MAX_AGE_SECONDS = 600;

/** Passes the choice to the page that asks. @returns the URL of that page. */
export function askForAccount(c: PageContext, choice: string, next: string): string {
  setCookie(c, COOKIE, choice, { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
  return withNext(PATH, next);
}

export function chooseAccountPage(app: Hono<DashboardEnv>, signIn: SignIn, database: Pick<Database, 'db'>): void {
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
