/** The page of a link for setting a password. Opening it, as mail scanners do, does not use up the link. */
import type { Hono, MiddlewareHandler } from 'hono';
import type { FC } from 'hono/jsx';
import { type LinkOwner, ownerOfLink } from '../../../rules/users/password-links.ts';
import { type PasswordContext, setPasswordByLink } from '../../../rules/users/set-password.ts';
import { Form, PasswordField } from '../components/form.tsx';
import { NarrowLayout } from '../components/layout.tsx';
import { Text } from '../components/text.tsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { startSession } from '../session-cookie.ts';
import { ValidationError } from '../../../foundation/base/errors.ts';

const PATH = '/dashboard/link/:token';

/** Keeps the token out of the `Referer` of later requests. With `no-referrer`, forms would have no `Origin` either. */
export const hidingLink: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  c.header('referrer-policy', 'strict-origin');
};

export function linkPage(app: Hono<DashboardEnv>, options: PasswordContext): void {
  const { database, clock } = options;

  const ownerOf = (token: string) => ownerOfLink(database.reads, token, clock.now());

  const page = async (c: PageContext) => {
    const owner = await ownerOf(c.req.param('token') ?? '');
    return owner ? c.render(<PasswordPage of={owner} />) : gone(c);
  };

  app.get(PATH, page);

  app.post(PATH, async (c) => {
    const token = c.req.param('token');
    if (!(await ownerOf(token))) return gone(c);
    return submitted(c, page, async ({ password = '', repeated = '' }) => {
      const mismatch = password === repeated ? {} : { repeated: [['sentence', 'The passwords don’t match.']] as const };
      const wrong = options.passwords.problem(password, (await ownerOf(token))?.email ?? '');
      // Both at once, so that nobody corrects one only to hear of the other.
      const problems = { ...(wrong !== undefined && { password: [wrong] }), ...mismatch };
      if (Object.keys(problems).length > 0) throw new ValidationError(problems);
      const request = { visit: c.get('visit'), requestId: c.env.notes.id, route: `POST ${PATH}` };
      const entered = await setPasswordByLink(options, { token, password }, request);
      // If the link was just used by somebody else, its page says so.
      return entered ? startSession(c, database, entered) : c.req.path;
    });
  });
}

function gone(c: PageContext): Response | Promise<Response> {
  c.status(404);
  return c.render(
    <NarrowLayout title="This link doesn’t work">
      <p>
        A link works once, for 24 hours, and only until a newer one is created. Ask an admin of your account, or the
        operator of this server, for another.
      </p>
      <p>
        <a href="/dashboard/sign-in">Sign in with your password</a>
      </p>
    </NarrowLayout>,
  );
}

const PasswordPage: FC<{ of: LinkOwner }> = ({ of: { email, accountName, by } }) => (
  <NarrowLayout title="Set your password">
    <p>
      {by === undefined ? 'You are invited' : <Invited by={by} />} to{' '}
      <strong>
        <Text of={accountName} />
      </strong>{' '}
      on berth, which receives files by SFTP. You sign in as <Text of={email} />.
    </p>
    <Form>
      <PasswordField
        label="Password"
        name="password"
        hint="At least 12 characters, and not a common password."
        isRequired
      />
      <PasswordField label="Repeat password" name="repeated" isRequired />
      <button>Set password and sign in</button>
    </Form>
  </NarrowLayout>
);

const Invited: FC<{ by: string }> = ({ by }) => (
  <>
    <Text of={by} /> invited you
  </>
);
