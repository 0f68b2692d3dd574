/** The second step of signing in: a code of the second factor, after which the session is a new one. */
import type { Hono } from 'hono';
import type { FieldErrors } from '../../errors.ts';
import { type SecondFactorDependencies, signInWithCode } from '../../users/second-factor.ts';
import { ActionButton, Field, Form } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { fieldErrors, formFields } from '../form.ts';
import { nextPage, startSession } from '../start-session.ts';

const PATH = '/dashboard/sign-in/code';

export function signInCodePage(app: Hono<DashboardEnv>, deps: SecondFactorDependencies): void {
  const page = (c: PageContext, errors?: FieldErrors) =>
    c.render(
      <NarrowLayout title="Enter your code">
        <Form>
          <Field
            label="Code"
            name="code"
            hint="The six digits in your app, or one of your recovery codes."
            autocomplete="one-time-code"
            isRequired
            errors={errors}
          />
          <button>Sign in</button>
        </Form>
        <p class="quiet">
          Lost both? Another admin of your account can reset your second factor, or ask whoever runs this berth.
        </p>
        <ActionButton action="/dashboard/sign-out" label="Use another account" />
      </NarrowLayout>,
    );

  app.get(PATH, (c) => (c.get('user').awaitsCode ? page(c) : c.redirect(nextPage(c), 303)));

  app.post(PATH, async (c) => {
    const user = c.get('user');
    if (!user.awaitsCode) return c.redirect(nextPage(c), 303);
    const { code = '' } = await formFields(c);
    let token = '';
    const errors = await fieldErrors(async () => (token = await signInWithCode(deps, user, code, c.get('visit'))));
    if (!errors) return startSession(c, deps.database, { token, awaitsCode: false }, nextPage(c));
    c.status(422);
    return page(c, errors);
  });
}
