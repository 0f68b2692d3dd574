/** Where people sign in: with email and password, or on to their company's login. */
import type { Hono } from 'hono';
import type { Database } from '../../db/open.ts';
import { ValidationError } from '../../errors.ts';
import type { SignIn } from '../../users/sign-in.ts';
import { INVALID } from '../../validation.ts';
import { Field, Form, PasswordField } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { type DashboardEnv, type PageContext, visitorOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { nextPage, startSession, withNext } from '../start-session.ts';

const PROBLEMS = { entry: 'The email or the password is wrong.' };

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
  const page = (c: PageContext) =>
    c.render(
      <NarrowLayout title="Sign in" problems={PROBLEMS}>
        {signIn && (
          <Form action={withNext('/dashboard/sign-in', nextPage(c))}>
            <Field label="Email" name="email" type="email" autocomplete="username" isRequired />
            <PasswordField label="Password" name="password" autocomplete="current-password" isRequired />
            <button>Sign in</button>
          </Form>
        )}
        {companyLogin !== undefined && (
          <p>
            <a href={withNext(companyLogin, nextPage(c))}>Sign in with your company</a>
          </p>
        )}
        {signIn && <p class="quiet">No password, or forgotten? Ask an admin of your account for a new link.</p>}
      </NarrowLayout>,
    );

  app.get('/dashboard/sign-in', (c) => {
    const visitor = visitorOf(c);
    return visitor && !visitor.awaitsCode ? c.redirect(nextPage(c), 303) : page(c);
  });

  if (!signIn) return;

  app.post('/dashboard/sign-in', (c) =>
    submitted(c, page, async ({ email = '', password = '' }) => {
      const entered = await signIn({ email, password }, c.get('visit'));
      if (!entered) throw new ValidationError({ entry: [INVALID] });
      return startSession(c, database, entered, nextPage(c));
    }),
  );
}
