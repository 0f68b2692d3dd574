/** The users of the account. An admin invites others; members see the list. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import * as users from '../../../rules/users/users.ts';
import { Field, Folded, Form } from '../components/form.tsx';
import { SettingsLayout } from '../components/layout.tsx';
import { LIMIT_FIELDS, LimitFields, limitsIn, RoleField, usernamesOf } from '../components/rights.tsx';
import { Pager, Section } from '../components/section.tsx';
import { type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { CreatingForms } from '../sent-forms.ts';
import { invitation, TEAM, UserTable } from './user.tsx';

const PAGE = 100;

const DONE = { removed: 'The user has been removed.' };
const PROBLEMS = { role: 'Choose one of the roles.' };

export function teamPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const sent = new CreatingForms(context);

  const page = async (c: PageContext) => {
    const { accountId } = c.get('user').principal;
    const after = c.req.query('after') ?? '';
    const list = await users.usersOf(context.database.reads, accountId, { after, limit: PAGE });
    const next = list[PAGE - 1]?.email;
    return c.render(
      <SettingsLayout tab="Team" done={DONE} problems={PROBLEMS}>
        <UserTable
          users={list}
          usernames={await usernamesOf(context.database.reads, accountId, list)}
          isLinked={isAdmin(c)}
          now={context.clock.now()}
        />
        <Pager of="users" next={next && `${TEAM}?${new URLSearchParams({ after: next }).toString()}`} />
        {isAdmin(c) && <Invite />}
      </SettingsLayout>,
    );
  };

  app.get(TEAM, page);

  app.post(TEAM, adminOnly, (c) =>
    submitted(c, page, async (given) => {
      const { email = '', role = '' } = given;
      return sent.create<users.InvitedUser>(
        c,
        given,
        (target) => users.createUser(context, target, { email, role, ...limitsIn(given) }),
        ({ id, token }) => invitation(c, id, token),
      );
    }),
  );
}

const Invite = () => (
  <Section title="Invite a user" about="berth sends no email. Copy the link that you get, and send it yourself.">
    <Form isOnce>
      <Field label="Email" name="email" type="email" isRequired />
      <RoleField />
      <Folded summary="Limit the user" fields={LIMIT_FIELDS}>
        <LimitFields whose="The user" />
      </Folded>
      <button>Invite</button>
    </Form>
  </Section>
);
