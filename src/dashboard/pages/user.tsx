/** One user of the account: everything that an admin may change of it. */
import type { Hono } from 'hono';
import type { Database } from '../../db/open.ts';
import { ValidationError } from '../../errors.ts';
import { linkPath } from '../../users/links.ts';
import { resetSecondFactor } from '../../users/second-factor.ts';
import * as users from '../../users/users.ts';
import { INVALID } from '../../validation.ts';
import { ActionButton, Form, Select } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Secret } from '../components/secret.tsx';
import { Section } from '../components/section.tsx';
import { ROLES, UserTable } from '../components/user-table.tsx';
import { askerOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';

export const TEAM = '/dashboard/team';

export interface TeamDependencies extends users.UserDependencies {
  readonly database: Pick<Database, 'db' | 'reads'>;
}

/** By the last part of their paths. */
const CHANGES = {
  disable: (deps: TeamDependencies, id: string, by: users.UserChange) => users.setDisabled(deps, id, true, by),
  enable: (deps: TeamDependencies, id: string, by: users.UserChange) => users.setDisabled(deps, id, false, by),
  'second-factor': resetSecondFactor,
  remove: users.removeUser,
};

const DONE: Readonly<Record<string, string>> = {
  role: 'The role is changed.',
  disable: 'The user does not get in any more.',
  enable: 'The user gets in again.',
  'second-factor': 'The second factor is reset.',
};

/** The link is shown on the page of that path, once. */
export function showLink(c: PageContext, page: string, token: string): void {
  showOnce(c, { kind: 'link', value: `https://${c.req.header('host')}${linkPath(token)}`, page });
}

export function userPage(app: Hono<DashboardEnv>, deps: TeamDependencies): void {
  app.get(`${TEAM}/:id`, adminOnly, async (c) => {
    const { principal, userId } = c.get('user');
    const user = await users.userById(deps.database.reads, principal.accountId, c.req.param('id'));
    if (!user) return c.notFound();
    return c.render(
      <Layout title={user.email} notice={DONE[c.req.query('done') ?? '']}>
        <Secret secret={takeShownOnce(c)} label="Link to hand over">
          <p>Whoever has it sets a password and signs in as this user. It works once, for 24 hours.</p>
        </Secret>
        <UserTable users={[user]} mayChange={false} />
        {user.id === userId ? <Oneself /> : <Changes user={user} />}
      </Layout>,
    );
  });

  app.post(`${TEAM}/:id/role`, adminOnly, async (c) => {
    const { role } = await formFields(c);
    if (role !== 'admin' && role !== 'member') throw new ValidationError({ role: [INVALID] });
    await users.setRole(deps, c.req.param('id'), role, { asker: askerOf(c) });
    return c.redirect(`${TEAM}/${c.req.param('id')}?done=role`, 303);
  });

  app.post(`${TEAM}/:id/link`, adminOnly, async (c) => {
    const path = `${TEAM}/${c.req.param('id')}`;
    showLink(c, path, await users.resetPassword(deps, c.req.param('id'), { asker: askerOf(c) }));
    return c.redirect(path, 303);
  });

  for (const [name, change] of Object.entries(CHANGES))
    app.post(`${TEAM}/:id/${name}`, adminOnly, async (c) => {
      await change(deps, c.req.param('id'), { asker: askerOf(c) });
      return c.redirect(name === 'remove' ? `${TEAM}?done=removed` : `${TEAM}/${c.req.param('id')}?done=${name}`, 303);
    });
}

const Oneself = () => (
  <p>
    This is you. Your password, second factor and sessions are on your <a href="/dashboard/profile">profile</a>; your
    role is for another admin to change.
  </p>
);

const Changes = ({ user: { id, email, role, disabled_at, has_second_factor } }: { user: users.User }) => (
  <>
    <Section title="Role" about="An admin also manages API keys, the team and how one gets in to directories.">
      <Form action={`${TEAM}/${id}/role`}>
        <Select label="Role" name="role" options={ROLES} value={role} />
        <button>Save</button>
      </Form>
    </Section>
    <Section title="Access" about="Each of these signs the user out everywhere.">
      <div class="actions">
        <ActionButton
          action={`${TEAM}/${id}/link`}
          label="New link"
          confirm={`End the password of ${email}, and make a link for a new one?`}
        />
        {Boolean(has_second_factor) && (
          <ActionButton
            action={`${TEAM}/${id}/second-factor`}
            label="Reset second factor"
            confirm={`Let ${email} in without a second factor, until it is set up again?`}
          />
        )}
        {disabled_at === null ? (
          <ActionButton action={`${TEAM}/${id}/disable`} label="Disable" />
        ) : (
          <ActionButton action={`${TEAM}/${id}/enable`} label="Enable" />
        )}
        <ActionButton
          action={`${TEAM}/${id}/remove`}
          label="Remove"
          kind="danger"
          confirm={`Remove ${email} for good?`}
        />
      </div>
    </Section>
  </>
);
