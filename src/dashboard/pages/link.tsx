/** A link sets a password, once. Looking at it, as mail scanners do, does not use it up. */
import type { Hono, MiddlewareHandler } from 'hono';
import type { FC } from 'hono/jsx';
import type { FieldErrors } from '../../errors.ts';
import { ownerOfLink } from '../../users/links.ts';
import { type PasswordDependencies, setPasswordByLink } from '../../users/set-password.ts';
import { Field, Form } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { Text } from '../components/text.tsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { fieldErrors, formFields } from '../form.ts';
import { startSession } from '../start-session.ts';

const PATH = '/dashboard/link/:token';

/** Keeps the link's token out of the `Referer` of what follows. With `no-referrer` forms would have no `Origin` either. */
export const hidingLink: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  c.header('referrer-policy', 'strict-origin');
};

export function linkPage(app: Hono<DashboardEnv>, deps: PasswordDependencies): void {
  const { database, clock } = deps;
  const ownerOf = (token: string) => ownerOfLink(database.reads, token, clock.now());

  app.get(PATH, async (c) => {
    const owner = await ownerOf(c.req.param('token'));
    return owner ? c.render(<PasswordPage email={owner.email} />) : gone(c);
  });

  app.post(PATH, async (c) => {
    const token = c.req.param('token');
    const { password = '', repeated = '' } = await formFields(c);
    const owner = await ownerOf(token);
    if (!owner) return gone(c);
    let errors: FieldErrors | undefined = { repeated: ['is not the same'] };
    if (password === repeated) {
      const request = { visit: c.get('visit'), requestId: c.env.notes.id, route: `POST ${PATH}` };
      let entered: Awaited<ReturnType<typeof setPasswordByLink>>;
      errors = await fieldErrors(async () => (entered = await setPasswordByLink(deps, { token, password }, request)));
      if (!errors) return entered ? startSession(c, database, entered) : gone(c);
    }
    c.status(422);
    return c.render(<PasswordPage email={owner.email} errors={errors} />);
  });
}

function gone(c: PageContext): Response | Promise<Response> {
  c.status(404);
  return c.render(
    <NarrowLayout title="This link does not work">
      <p>
        A link works once, for 24 hours, and only until there is a newer one. Ask an admin of your account, or whoever
        runs this berth, for another.
      </p>
      <p>
        <a href="/dashboard/sign-in">Sign in with your password</a>
      </p>
    </NarrowLayout>,
  );
}

const PasswordPage: FC<{ email: string; errors?: FieldErrors }> = ({ email, errors }) => (
  <NarrowLayout title="Set your password">
    <p>
      For <Text of={email} />
    </p>
    <Form>
      <Field
        label="Password"
        name="password"
        type="password"
        errors={errors}
        hint="At least 12 characters, and none of the common ones."
        autocomplete="new-password"
        isRequired
      />
      <Field label="Once more" name="repeated" type="password" errors={errors} autocomplete="new-password" isRequired />
      <button>Save</button>
    </Form>
  </NarrowLayout>
);
