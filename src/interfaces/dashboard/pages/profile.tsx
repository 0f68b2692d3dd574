/** The user's own password, second factor and sessions. */
import type { Hono } from 'hono';
import type { Transaction } from 'kysely';
import { verifyOneself } from '../../../rules/accounts/actor.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { prove, secondFactorOf, type FactorContext } from '../../../rules/users/second-factor.ts';
import { endUserSession, endUserSessions, sessionsOf } from '../../../rules/users/sessions.ts';
import { setPassword } from '../../../rules/users/set-password.ts';
import { ActionButton, Form, PasswordField } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { Badge, Time } from '../components/values.tsx';
import { accountTarget, type DashboardEnv, ownTarget, type PageContext } from '../environment.ts';
import { submitted } from '../form.ts';

const PATH = '/dashboard/profile';

const DONE = {
  password: 'Your password has been changed, and you’ve been signed out everywhere else.',
  'second-factor-off': 'Two-factor sign-in is off.',
  ended: 'The browser has been signed out.',
  'others-ended': 'All other browsers have been signed out.',
};

export function profilePage(app: Hono<DashboardEnv>, context: FactorContext): void {
  const { database, clock } = context;

  async function page(c: PageContext) {
    const { userId, sessionId } = c.get('user');
    const { isOn, hasPassword } = await secondFactorOf(database.reads, userId);
    const sessions = await sessionsOf(database.reads, userId, clock.now());
    return c.render(
      <Layout title="Profile" done={DONE}>
        {hasPassword && <Password />}
        <SecondFactor isOn={isOn} />
        <Sessions sessions={sessions} own={sessionId} />
      </Layout>,
    );
  }

  /** Runs `work` in a transaction, which verifies that the session of the request is still valid. */
  const byActor = <T,>(c: PageContext, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> =>
    database.db.transaction().execute(async (tx) => {
      await verifyOneself(tx, { ...accountTarget(c), userId: c.get('user').userId });
      return work(tx);
    });

  app.get(PATH, page);

  app.post(`${PATH}/password`, (c) =>
    submitted(c, page, async ({ current_password = '', password = '' }) => {
      await prove(context, ownTarget(c), { code: '', current_password });
      await setPassword(context, ownTarget(c), password);
      return `${PATH}?done=password`;
    }),
  );

  app.post(`${PATH}/sessions/:id/end`, async (c) => {
    const { userId } = c.get('user');
    const isMine = await byActor(c, (tx) => endUserSession(tx, userId, c.req.param('id')));
    return isMine ? c.redirect(`${PATH}?done=ended`, 303) : c.notFound();
  });

  app.post(`${PATH}/sessions/end-others`, async (c) => {
    const { userId, sessionId } = c.get('user');
    await byActor(c, (tx) => endUserSessions(tx, userId, sessionId));
    return c.redirect(`${PATH}?done=others-ended`, 303);
  });
}

const Password = () => (
  <Section title="Password" about="A new password signs you out everywhere else.">
    <Form action={`${PATH}/password`}>
      <PasswordField label="Current password" name="current_password" autocomplete="current-password" isRequired />
      <PasswordField label="New password" name="password" hint="At least 12 characters." isRequired />
      <button>Save</button>
    </Form>
  </Section>
);

const SecondFactor = ({ isOn }: { isOn: boolean }) => (
  <Section title="Two-factor sign-in" about="A code from an app on your phone that you enter when you sign in.">
    <p>
      <Badge kind={isOn ? 'good' : 'quiet'} text={isOn ? 'on' : 'off'} />{' '}
      <a href={`${PATH}/second-factor`}>{isOn ? 'Manage' : 'Set up'}</a>
    </p>
  </Section>
);

const Sessions = ({ sessions, own }: { sessions: Awaited<ReturnType<typeof sessionsOf>>; own: string }) => (
  <Section title="Where you’re signed in">
    <Table
      caption="Where you are signed in, last used first"
      columns={['Browser', 'Address', 'Signed in', 'Last used', 'Action']}
      rows={sessions.map(({ id, agent, address, inserted_at, seen_at }) => [
        <Text of={browserName(agent)} />,
        <Text of={address} />,
        <Time at={inserted_at} />,
        <Time at={seen_at} />,
        id === own ? 'This browser' : <ActionButton action={`${PATH}/sessions/${id}/end`} label="Sign out" />,
      ])}
    />
    {sessions.length > 1 && <ActionButton action={`${PATH}/sessions/end-others`} label="Sign out everywhere else" />}
  </Section>
);

// The name of a browser, from its `User-Agent`; the header itself when it is unknown.

/** The first one in the header counts, since each browser also names some of those after it. */
const BROWSERS = ['Edg=Edge', 'OPR=Opera', 'Firefox', 'FxiOS=Firefox', 'Chrome', 'CriOS=Chrome', 'Safari'];
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'CrOS=ChromeOS', 'Mac OS X=macOS', 'Linux'];

export function browserName(agent: string): string {
  const browser = firstIn(agent, BROWSERS, '/');
  const system = firstIn(agent, SYSTEMS, '');
  if (browser === undefined) return agent === '' ? 'unknown' : agent;
  return system === undefined ? browser : `${browser} on ${system}`;
}

function firstIn(agent: string, names: readonly string[], end: string): string | undefined {
  const known = names.map((name) => name.split('='));
  return known.find(([part]) => agent.includes(`${part}${end}`))?.at(-1);
}
