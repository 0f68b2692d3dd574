/** A user of the account, with everything that an admin can change. */
import type { Hono } from 'hono';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { Database } from '../../../foundation/db/open.ts';
import { ValidationError } from '../../../foundation/base/errors.ts';
import { type Link, linkPath, linksMadeBy } from '../../../arrivals/links/links.ts';
import { type ApiKey, keysMadeBy } from '../../../rules/keys/api-keys.ts';
import { linkPath as invitationPath } from '../../../rules/users/password-links.ts';
import { resetSecondFactor } from '../../../rules/users/second-factor.ts';
import { userKeyId } from '../../../rules/users/sessions.ts';
import * as users from '../../../rules/users/users.ts';
import { INVALID } from '../../../foundation/base/validation.ts';
import { ActionButton, Form, Select } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { plainText } from '../../../foundation/base/hidden-characters.ts';
import { clipped, Name, Text } from '../components/text.tsx';
import { Badge, Secret, Time } from '../components/values.tsx';
import { DIRECTORIES } from '../directories-view.ts';
import { actorOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { type ShownOnce, showOnce, takeShownOnce } from '../after-redirect.ts';

export const TEAM = '/dashboard/team';
export const ROLES = { member: 'Member', admin: 'Admin' };

export interface TeamOptions extends users.UserOptions {
  readonly database: Pick<Database, 'db' | 'reads'>;
}

interface Action {
  readonly label: string;
  /** The question before the action, if something may be lost. */
  readonly confirm?: string;
  readonly isFor: (user: users.User) => boolean;
  readonly change: (options: TeamOptions, id: string, by: users.UserChange) => Promise<void>;
}

/** The one-click actions, by the last part of their paths. */
const ACTIONS: Readonly<Record<string, Action>> = {
  'second-factor': {
    label: 'Reset second factor',
    confirm: 'The user signs in without a second factor until it is set up again.',
    isFor: ({ has_second_factor }) => Boolean(has_second_factor),
    change: resetSecondFactor,
  },
  disable: {
    label: 'Disable',
    confirm:
      'The user is signed out everywhere and cannot sign in until enabled again. API keys and links of this user still work.',
    isFor: ({ disabled_at }) => disabled_at === null,
    change: (options, id, by) => users.setDisabled(options, id, true, by),
  },
  enable: {
    label: 'Enable',
    isFor: ({ disabled_at }) => disabled_at !== null,
    change: (options, id, by) => users.setDisabled(options, id, false, by),
  },
  remove: {
    label: 'Remove',
    confirm:
      'The user is signed out everywhere. API keys and links of this user still work: revoke them first. This can’t be undone.',
    isFor: () => true,
    change: users.removeUser,
  },
};

/** How many of the keys, and of the links, a user's page lists. */
const MOST_MADE = 50;
/** How many characters of a path are shown. */
const PATH_LENGTH = 300;

const DONE = {
  role: 'The role is changed.',
  'second-factor': 'The second factor is reset.',
  disable: '{email} is disabled and signed out.',
  enable: '{email} can sign in again.',
};

/** The confirmations, with the email of the user. */
function doneTo(email: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(DONE).map(([name, text]) => [name, text.replace('{email}', plainText(email))]),
  );
}

/** The link by which a user sets a password, for the user's page. */
export function invitation(c: PageContext, userId: string, token: string): ShownOnce {
  const value = `https://${c.req.header('host')}${invitationPath(token)}`;
  return { kind: 'link', value, page: `${TEAM}/${userId}` };
}

export function userPage(app: Hono<DashboardEnv>, options: TeamOptions): void {
  async function madeBy(c: PageContext, { email }: users.User): Promise<MadeByUser> {
    const actor = { accountId: c.get('user').principal.accountId, keyId: userKeyId(email) };
    const { reads } = options.database;
    const first = { now: options.clock.now(), limit: MOST_MADE };
    return { keys: await keysMadeBy(reads, actor, first), links: await linksMadeBy(reads, actor, first) };
  }

  app.get(`${TEAM}/:id`, adminOnly, async (c) => {
    const { principal, userId } = c.get('user');
    const user = await users.userById(options.database.reads, principal.accountId, c.req.param('id'));
    if (!user) return c.notFound();
    const made = await madeBy(c, user);
    return c.render(
      <Layout title={user.email} above={[['Team', TEAM]]} done={doneTo(user.email)}>
        <Secret of={takeShownOnce(c)} label="Invitation link">
          <p>Anyone with this link can set the password and sign in as this user. It works once, for 24 hours.</p>
          {user.disabled_at !== null && <p>The user is disabled. The link works once you enable the user again.</p>}
        </Secret>
        <UserTable users={[user]} now={options.clock.now()} />
        {user.id === userId ? <Oneself /> : <Changes user={user} />}
        {user.id !== userId && <Made {...made} />}
      </Layout>,
    );
  });

  app.post(`${TEAM}/:id/role`, adminOnly, async (c) => {
    const { role } = await formFields(c);
    if (role !== 'admin' && role !== 'member') throw new ValidationError({ role: [INVALID] });
    await users.setRole(options, c.req.param('id'), role, { actor: actorOf(c) });
    return c.redirect(`${TEAM}/${c.req.param('id')}?done=role`, 303);
  });

  app.post(`${TEAM}/:id/link`, adminOnly, async (c) => {
    const id = c.req.param('id');
    const token = await users.resetPassword(options, id, { actor: actorOf(c) });
    const link = invitation(c, id, token);
    showOnce(c, link);
    return c.redirect(link.page, 303);
  });

  for (const [name, { change }] of Object.entries(ACTIONS))
    app.post(`${TEAM}/:id/${name}`, adminOnly, async (c) => {
      await change(options, c.req.param('id'), { actor: actorOf(c) });
      return c.redirect(name === 'remove' ? `${TEAM}?done=removed` : `${TEAM}/${c.req.param('id')}?done=${name}`, 303);
    });
}

/** With `isLinked`, each user links to the page on which an admin can change them. */
export const UserTable = ({ users: list, isLinked, now }: UserTableProps) => (
  <Table
    caption="Users of your account"
    columns={['Email', 'Role', 'Last sign-in', 'Second factor', 'State']}
    rows={list.map((user) => {
      const { id, email, role, signed_in_at, has_second_factor } = user;
      return [
        isLinked ? <a href={`${TEAM}/${id}`}>{plainText(email)}</a> : <Text of={email} />,
        ROLES[role],
        <Time at={signed_in_at} />,
        has_second_factor ? 'on' : 'off',
        <State of={user} now={now} />,
      ];
    })}
  />
);

interface UserTableProps {
  readonly users: readonly users.User[];
  readonly isLinked?: boolean;
  readonly now: Micros;
}

/** An invited user is one who has never signed in: by the company login, a user may have no password. */
const State = ({ of: user, now }: { of: users.User; now: Micros }) => {
  const { disabled_at, has_password, signed_in_at, link_expires_at: until } = user;
  if (disabled_at !== null) return <Badge kind="bad" text="disabled" />;
  if (has_password || signed_in_at !== null) return <Badge kind="good" text="enabled" />;
  if (until === null || until <= now)
    return (
      <>
        <Badge kind="waiting" text="invited" /> the link has expired
      </>
    );
  return (
    <>
      <Badge kind="waiting" text="invited" /> expires <Time at={until} />
    </>
  );
};

const Oneself = () => (
  <p>
    This is you. Your password, second factor and sessions are on your <a href="/dashboard/profile">profile</a>; your
    role is for another admin to change.
  </p>
);

const Changes = ({ user }: { user: users.User }) => (
  <>
    <Section title="Role" about="An admin also manages API keys, the team and how customers log in to directories.">
      <Form action={`${TEAM}/${user.id}/role`}>
        <Select label="Role" name="role" options={ROLES} value={user.role} />
        <button>Save</button>
      </Form>
    </Section>
    <Section title="Access" about="Each of these signs the user out everywhere. A new link replaces the password.">
      <div class="actions">
        <ActionButton
          action={`${TEAM}/${user.id}/link`}
          label="New link"
          about={user.email}
          {...(user.has_password && {
            kind: 'danger',
            confirm:
              'The user is signed out and the password is removed. Until the new link is used, the user cannot sign in.',
          })}
        />
        {Object.entries(ACTIONS).map(
          ([name, { isFor, label, confirm }]) =>
            isFor(user) && (
              <ActionButton
                action={`${TEAM}/${user.id}/${name}`}
                label={label}
                about={user.email}
                {...(confirm && { confirm, kind: 'danger' })}
              />
            ),
        )}
      </div>
    </Section>
  </>
);

interface MadeByUser {
  readonly keys: readonly ApiKey[];
  readonly links: readonly (Link & { readonly directory: string })[];
}

/** What goes on without the user. */
const Made = ({ keys, links }: MadeByUser) => (
  <Section
    title="API keys and links of this user"
    about="They still work after you disable or remove the user. Revoke those that should end."
  >
    <Table
      caption="Made by this user"
      columns={['Name', 'Kind', 'Created', 'Expires', 'Actions']}
      rows={[
        ...keys.map(({ id, name, inserted_at, expires_at }) => [
          <Name of={name} />,
          'API key',
          <Time at={inserted_at} />,
          expires_at === null ? 'never' : <Time at={expires_at} />,
          <a href={`/dashboard/api-keys/${id}/revoke`}>Revoke</a>,
        ]),
        ...links.map((link) => [
          <Name of={linkedPath(link)} />,
          <Text of={`${link.kind} link, ${link.directory}`} />,
          <Time at={link.inserted_at} />,
          <Time at={link.expires_at} />,
          <ActionButton
            action={`${DIRECTORIES}/${link.directory_id}/links/${link.id}/revoke`}
            label="Revoke"
            kind="danger"
            about={`link to ${linkedPath(link)}`}
            confirm="It stops working immediately. This can’t be undone."
          />,
        ]),
      ]}
    >
      <Empty title="None">This user has made no API key and no link that still works.</Empty>
    </Table>
    {Math.max(keys.length, links.length) === MOST_MADE && (
      <p class="quiet">There may be more: revoke these, and look again.</p>
    )}
  </Section>
);

const linkedPath = (link: Link): string => clipped(linkPath(link), PATH_LENGTH);
