/** The second step of signing in: a code of the second factor, after which the session is a new one. */
import type { Hono } from 'hono';
import { type SecondFactorDependencies, signInWithCode } from '../../users/second-factor.ts';
import { ActionButton, CodeField, Form } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { nextPage, startSession } from '../start-session.ts';

const PATH = '/dashboard/sign-in/code';

export function signInCodePage(app: Hono<DashboardEnv>, deps: SecondFactorDependencies): void {
  const page = (c: PageContext) =>
    c.render(
      <NarrowLayout title="Enter your code">
        <Form>
          <CodeField hint="The six digits in your app, or one of your recovery codes." isRequired />
          <button>Sign in</button>
        </Form>
        <p class="quiet">
          Lost both? Another admin of your account can reset your second factor, or ask whoever runs this berth.
        </p>
        <ActionButton action="/dashboard/sign-out" label="Use another account" />
      </NarrowLayout>,
    );

  app.get(PATH, (c) => (c.get('user').awaitsCode ? page(c) : c.redirect(nextPage(c), 303)));

  app.post(PATH, (c) =>
    submitted(c, page, async ({ code = '' }) => {
      const user = c.get('user');
      if (!user.awaitsCode) return nextPage(c);
      const token = await signInWithCode(deps, user, code, c.get('visit'));
      return startSession(c, deps.database, { token, awaitsCode: false }, nextPage(c));
    }),
  );
}
