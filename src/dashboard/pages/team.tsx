/** The users of the account. An admin invites others; members see the list. */
import type { Hono } from 'hono';
import type { FieldErrors } from '../../errors.ts';
import * as users from '../../users/users.ts';
import { Field, Form, Select } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Pager } from '../components/pager.tsx';
import { Section } from '../components/section.tsx';
import { ROLES, UserTable } from '../components/user-table.tsx';
import { askerOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showLink, TEAM, type TeamDependencies } from './user.tsx';

const PAGE = 100;

const DONE = { removed: 'The user is removed.' };

export function teamPage(app: Hono<DashboardEnv>, deps: TeamDependencies): void {
  const { reads } = deps.database;

  async function page(c: PageContext, given: FormFields = {}, errors?: FieldErrors) {
    const { accountId, role } = c.get('user').principal;
    const list = await users.usersOf(reads, accountId, { after: c.req.query('after') ?? '', limit: PAGE });
    const next = list.length < PAGE ? undefined : list.at(-1)?.email;
    const mayChange = role === 'admin';
    if (errors) c.status(422);
    return c.render(
      <Layout title="Team" notice={noticeOf(c, DONE)} problem={errors?.['role'] && 'Choose one of the roles.'}>
        <UserTable users={list} linked={mayChange} />
        <Pager of="users" next={next && `${TEAM}?${new URLSearchParams({ after: next }).toString()}`} />
        {mayChange && <Invite given={given} errors={errors} />}
      </Layout>,
    );
  }

  app.get(TEAM, (c) => page(c));

  app.post(TEAM, adminOnly, async (c) => {
    const given = await formFields(c);
    const { email = '', role = '' } = given;
    let path = TEAM;
    const errors = await fieldErrors(async () => {
      const { id, token } = await users.createUser(deps, { email, role }, askerOf(c));
      path = `${TEAM}/${id}`;
      showLink(c, path, token);
    });
    return errors ? page(c, given, errors) : c.redirect(path, 303);
  });
}

const Invite = ({ given, errors }: { given: FormFields; errors?: FieldErrors | undefined }) => (
  <Section
    title="Invite somebody"
    about="You get a link to hand over, with which they set their password: berth sends no mail."
  >
    <Form action={TEAM}>
      <Field label="Email" name="email" type="email" isRequired value={given['email']} errors={errors} />
      <Select label="Role" name="role" options={ROLES} value={given['role']} />
      <button>Invite</button>
    </Form>
  </Section>
);
