/** A user of the account, with everything that an admin can change. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { Micros } from '../../../foundation/base/clock.ts';
import { type Link, linkPath, linksMadeBy, revokeLink } from '../../../arrivals/links/links.ts';
import { type ApiKey, keysMadeBy, revokeKey } from '../../../rules/api-keys/api-keys.ts';
import { linkPath as invitationPath } from '../../../rules/users/password-links.ts';
import { resetSecondFactor } from '../../../rules/users/second-factor.ts';
import { userKeyId } from '../../../rules/users/sessions.ts';
import * as users from '../../../rules/users/users.ts';
import { changedFields, formFields, submitted } from '../form.ts';
import { ActionButton, Form, Was } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import {
  LimitFields,
  limitsIn,
  limitsInWords,
  RoleField,
  ROLES,
  storedLimits,
  usernamesOf,
} from '../components/rights.tsx';
import { Empty, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped, Name, Text } from '../components/text.tsx';
import { Badge, Secret, Time } from '../components/values.tsx';
import { accountTarget, type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { adminOnly } from '../guard.ts';
import { type ShownOnce, showOnce, takeShownOnce } from '../after-redirect.ts';

export const TEAM = '/dashboard/team';

interface Action {
  readonly label: string;
  /** The question before the action, if something may be lost. */
  readonly confirm?: string;
  readonly isFor: (user: users.User) => boolean;
  readonly change: (context: AppContext, target: users.UserTarget) => Promise<void>;
}

/** The one-click actions, by the last part of their paths. */
const ACTIONS: Readonly<Record<string, Action>> = {
  'second-factor': {
    label: 'Reset two-factor sign-in',
    confirm: 'The user signs in with the password alone until two-factor sign-in is set up again.',
    isFor: ({ has_second_factor }) => Boolean(has_second_factor),
    change: resetSecondFactor,
  },
  disable: {
    label: 'Disable',
    confirm:
      'The user is signed out everywhere and cannot sign in until enabled again. API keys and links of this user still work.',
    isFor: ({ disabled_at }) => disabled_at === null,
    change: (context, target) => users.setDisabled(context, target, true),
  },
  enable: {
    label: 'Enable',
    isFor: ({ disabled_at }) => disabled_at !== null,
    change: (context, target) => users.setDisabled(context, target, false),
  },
};

/** How many of the keys, and of the links, a user's page lists. */
const MOST_MADE = 50;
/** How many characters of a path are shown. */
const PATH_LENGTH = 300;

const DONE = {
  role: 'The role and the limits are saved.',
  'second-factor': 'Two-factor sign-in is reset.',
  disable: '{email} is disabled and signed out.',
  enable: '{email} can sign in again.',
  key: 'The key is revoked.',
  link: 'The link is revoked.',
};

/** The confirmations, with the email of the user. */
function doneTo(email: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(DONE).map(([name, text]) => [name, text.replace('{email}', plainText(email))]),
  );
}

/** The user in the path. The rules refuse users of other accounts. */
function userTarget(c: PageContext): users.UserTarget {
  return { ...accountTarget(c), userId: c.req.param('id') ?? '' };
}

/** The link by which a user sets a password, for the user's page. */
export function invitation(c: PageContext, userId: string, token: string): ShownOnce {
  const value = `https://${c.req.header('host')}${invitationPath(token)}`;
  return { kind: 'link', value, page: `${TEAM}/${userId}` };
}

export function userPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const userOf = (c: PageContext) =>
    users.userById(context.database.reads, c.get('user').principal.accountId, c.req.param('id') ?? '');

  async function madeBy(c: PageContext, { email }: users.User): Promise<MadeByUser> {
    const actor = { accountId: c.get('user').principal.accountId, keyId: userKeyId(email) };
    const { reads } = context.database;
    const first = { now: context.clock.now(), limit: MOST_MADE };
    return { keys: await keysMadeBy(reads, actor, first), links: await linksMadeBy(reads, actor, first) };
  }

  async function page(c: PageContext) {
    const { userId, principal } = c.get('user');
    const user = await userOf(c);
    if (!user) return c.notFound();
    const made = await madeBy(c, user);
    const usernames = await usernamesOf(context.database.reads, principal.accountId, [user]);
    return c.render(
      <Layout title={user.email} above={[['Team', TEAM]]} done={doneTo(user.email)}>
        <Secret
          of={takeShownOnce(c)}
          label={user.signed_in_at === null ? 'Invitation link' : 'Link for a new password'}
        >
          <p>Anyone with this link can set the password and sign in as this user. It works once, for 24 hours.</p>
          {user.disabled_at !== null && <p>The user is disabled. The link works once you enable the user again.</p>}
        </Secret>
        <UserTable users={[user]} usernames={usernames} now={context.clock.now()} />
        {user.id === userId ? (
          <Oneself />
        ) : (
          <>
            <Changes user={user} usernames={usernames} />
            <Made {...made} user={user} />
            <Removal {...made} user={user} />
          </>
        )}
      </Layout>,
    );
  }

  app.get(`${TEAM}/:id`, adminOnly, page);

  app.post(`${TEAM}/:id/role`, adminOnly, (c) =>
    submitted(c, page, async (given) => {
      const user = await userOf(c);
      if (!user) return c.notFound();
      const { accountId } = c.get('user').principal;
      const changed = changedFields(
        given,
        storedRights(user, await usernamesOf(context.database.reads, accountId, [user])),
      );
      await users.setRights(context, userTarget(c), { role: changed.role, ...limitsIn(changed) });
      return `${TEAM}/${c.req.param('id')}?done=role`;
    }),
  );

  app.post(`${TEAM}/:id/link`, adminOnly, async (c) => {
    const id = c.req.param('id');
    const token = await users.resetPassword(context, userTarget(c));
    const link = invitation(c, id, token);
    showOnce(c, link);
    return c.redirect(link.page, 303);
  });

  for (const [name, { change }] of Object.entries(ACTIONS))
    app.post(`${TEAM}/:id/${name}`, adminOnly, async (c) => {
      await change(context, userTarget(c));
      return c.redirect(`${TEAM}/${c.req.param('id')}?done=${name}`, 303);
    });

  app.post(`${TEAM}/:id/api-keys/:key/revoke`, adminOnly, async (c) => {
    if (!(await userOf(c))) return c.notFound();
    await revokeKey(context, accountTarget(c), c.req.param('key'));
    return c.redirect(`${TEAM}/${c.req.param('id')}?done=key`, 303);
  });
  app.post(`${TEAM}/:id/links/:link/revoke`, adminOnly, async (c) => {
    if (!(await userOf(c))) return c.notFound();
    const { directory = '' } = await formFields(c);
    await revokeLink(context, targetOf(c, directory), c.req.param('link'));
    return c.redirect(`${TEAM}/${c.req.param('id')}?done=link`, 303);
  });

  app.post(`${TEAM}/:id/remove`, adminOnly, async (c) => {
    const user = await userOf(c);
    if (!user) return c.notFound();
    const { keys, links } = await formFields(c);
    // First, so that the user makes no others meanwhile. The user goes last: whatever interrupts this, it can be repeated.
    await users.setDisabled(context, userTarget(c), true);
    const chosen = async () => {
      const made = await madeBy(c, user);
      return [
        ...(keys === 'revoke'
          ? made.keys.map(
              ({ id }) =>
                () =>
                  revokeKey(context, accountTarget(c), id),
            )
          : []),
        ...(links === 'end'
          ? made.links.map((link) => () => revokeLink(context, targetOf(c, link.directory_id), link.id))
          : []),
      ];
    };
    for (let some = await chosen(); some.length > 0; some = await chosen()) for (const end of some) await end();
    await users.removeUser(context, userTarget(c));
    return c.redirect(`${TEAM}?done=removed`, 303);
  });
}

/** With `isLinked`, each user links to the page on which an admin can change them. */
export const UserTable = ({ users: list, usernames, isLinked, now }: UserTableProps) => (
  <Table
    caption="Users of your account"
    columns={['Email', 'Role', 'Limits', 'Last sign-in', 'Two-factor', 'State']}
    rows={list.map((user) => {
      const { id, email, role, signed_in_at, has_second_factor } = user;
      return [
        isLinked ? <a href={`${TEAM}/${id}`}>{plainText(email)}</a> : <Text of={email} />,
        ROLES[role],
        limitsInWords(user, usernames),
        <Time at={signed_in_at} />,
        has_second_factor ? 'on' : 'off',
        <State of={user} now={now} />,
      ];
    })}
  />
);

interface UserTableProps {
  readonly users: readonly users.User[];
  /** Those of the directories that the users are limited to. */
  readonly usernames: ReadonlyMap<string, string>;
  readonly isLinked?: boolean;
  readonly now: Micros;
}

/** An invited user is one who has never signed in: by the company login, a user may have no password. */
const State = ({ of: user, now }: { of: users.User; now: Micros }) => {
  const { disabled_at, has_password, signed_in_at, link_expires_at: until } = user;
  if (disabled_at !== null) return <Badge kind="bad" text="disabled" />;
  if (has_password || signed_in_at !== null) return <>enabled</>;
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

/** The stored values in the fields' format. */
function storedRights(user: users.User, usernames: UserTableProps['usernames']) {
  return { role: user.role, ...storedLimits(user, usernames) };
}

const Oneself = () => (
  <p>
    This is you. Your password, two-factor sign-in and sessions are on your <a href="/dashboard/profile">profile</a>;
    your role is for another admin to change.
  </p>
);

const Changes = ({ user, usernames }: { user: users.User } & Pick<UserTableProps, 'usernames'>) => (
  <>
    <Section title="Role and limits">
      <Form action={`${TEAM}/${user.id}/role`}>
        <Was of={storedRights(user, usernames)} />
        <RoleField value={user.role} />
        <LimitFields whose="The user" of={user} usernames={usernames} />
        <button>Save</button>
      </Form>
    </Section>
    <Section title="Access">
      <div class="actions">
        <ActionButton
          action={`${TEAM}/${user.id}/link`}
          label={user.has_password ? 'Reset password…' : 'New invitation link'}
          about={user.email}
          {...(user.has_password && {
            kind: 'danger',
            confirm:
              'The user is signed out everywhere and the password is removed. You get a link for a new one. Until it is used, the user cannot sign in.',
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
const Made = ({ keys, links, user }: MadeByUser & { user: users.User }) => (
  <Section title="API keys and links of this user" about="They still work while the user is disabled.">
    <Table
      caption="Made by this user"
      columns={['Name', 'Kind', 'Created', 'Last used', 'Expires', 'Actions']}
      rows={[
        ...keys.map(({ id, name, inserted_at, last_used_at, expires_at }) => [
          <Name of={name} />,
          'API key',
          <Time at={inserted_at} />,
          <Time at={last_used_at} />,
          expires_at === null ? 'never' : <Time at={expires_at} />,
          <ActionButton
            action={`${TEAM}/${user.id}/api-keys/${id}/revoke`}
            label="Revoke"
            kind="danger"
            about={name}
            confirm="Programs that use it stop working immediately. This can’t be undone."
          />,
        ]),
        ...links.map((link) => [
          <Name of={linkedPath(link)} />,
          <Text of={`${link.kind} link, ${link.directory}`} />,
          <Time at={link.inserted_at} />,
          '',
          <Time at={link.expires_at} />,
          <ActionButton
            action={`${TEAM}/${user.id}/links/${link.id}/revoke`}
            label="Revoke"
            kind="danger"
            about={`link to ${linkedPath(link)}`}
            fields={{ directory: link.directory_id }}
            confirm="It stops working immediately. This can’t be undone."
          />,
        ]),
      ]}
    >
      <Empty title="None">This user has made no API key and no link that still works.</Empty>
    </Table>
    {Math.max(keys.length, links.length) === MOST_MADE && <p class="quiet">There may be more.</p>}
  </Section>
);

/** `3 API keys`, or `50 or more API keys`. */
const some = (count: number, one: string): string =>
  `${count}${count === MOST_MADE ? ' or more' : ''} ${one}${count === 1 ? '' : 's'}`;

/** Removes the user, with what still works without them, after a second click. */
const Removal = ({ keys, links, user }: MadeByUser & { user: users.User }) => {
  const used = keys.filter(({ last_used_at }) => last_used_at !== null);
  const latest = used.toSorted((a, b) => (b.last_used_at ?? 0) - (a.last_used_at ?? 0))[0];
  const hasMade = keys.length + links.length > 0;
  return (
    <details>
      <summary class="button danger">Remove…</summary>
      <Section title={`Remove ${user.email}?`} about="They are signed out now. This can’t be undone.">
        <Form action={`${TEAM}/${user.id}/remove`}>
          {keys.length > 0 && (
            <p>
              <label>
                <input type="checkbox" name="keys" value="revoke" checked /> Revoke {some(keys.length, 'API key')}
              </label>
              {latest && (
                <span class="quiet">
                  {' '}
                  (last used: <Text of={latest.name} />, <Time at={latest.last_used_at} />)
                </span>
              )}
            </p>
          )}
          {links.length > 0 && (
            <p>
              <label>
                <input type="checkbox" name="links" value="end" checked /> End {some(links.length, 'link')}
              </label>
            </p>
          )}
          <button class="danger solid">{hasMade ? 'Remove and revoke' : 'Remove'}</button>
        </Form>
      </Section>
    </details>
  );
};

const linkedPath = (link: Link): string =>
  link.kind === 'password' ? 'The password' : clipped(linkPath(link), PATH_LENGTH);
