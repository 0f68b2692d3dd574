/**
 * How customers log in to a directory, and why a login fails: the settings in the order of a login, and the last refusal
 * with its remedy.
 */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { CreateOptions } from '../../../../rules/directories/create.ts';
import { updateAccess } from '../../../../rules/directories/access.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../../../rules/directories/public-keys.ts';
import { updateAuth } from '../../../../rules/directories/update.ts';
import { type LoginCheck, loginChecks, remedyFor } from '../../../../operating/reports/login-rules.ts';
import type { LoginLog } from '../../../../operating/reports/login-log.ts';
import type { LoginAttempt } from '../../../../operating/reports/sshd-log.ts';
import { DirectoryLayout } from '../../components/layout.tsx';
import { Section } from '../../components/section.tsx';
import { Text } from '../../components/text.tsx';
import { Time } from '../../components/values.tsx';
import { type DashboardEnv, isAdmin, type PageContext, pathOf } from '../../environment.ts';
import { lastAttempts } from '../../queries/directory.ts';
import { Access, accessFields } from './access.tsx';
import { directoryActions } from './actions.ts';
import { SignIn } from './sign-in.tsx';

const DONE = {
  saved: 'Saved.',
  suspended: 'Suspended. Live sessions have ended.',
  'key-added': 'The key is added. It works from the next login on.',
  'key-removed': 'The key is removed. Logins with it are refused.',
};

export function loginPage(app: Hono<DashboardEnv>, rules: CreateOptions, logins: LoginLog): void {
  const { clock } = rules;
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const directory = c.get('directory');
    const keys = await publicKeysOf(reads, directory.id);
    const shown = { directory, path: pathOf(c), isAdmin: isAdmin(c) };
    return c.render(
      <DirectoryLayout tab="Login" done={DONE}>
        <Why
          checks={loginChecks(directory, { keys: keys.length, now: clock.now() })}
          last={await lastAttempts(reads, logins, directory)}
          activity={`${shown.path}/activity?topic=logins`}
        />
        <SignIn {...shown} keys={keys} />
        <Access {...shown} />
      </DirectoryLayout>,
    );
  }

  const { adminAction } = directoryActions(app, page, 'Login');

  adminAction('auth-mode', 'saved', (_, { accountId, id, actor }, { auth_mode }) =>
    updateAuth(rules, accountId, id, { auth_mode }, actor),
  );
  adminAction('public-keys', 'key-added', (_, { accountId, id, actor }, { public_key }) =>
    addPublicKey(rules, accountId, id, { public_key }, actor),
  );
  adminAction('public-keys/remove', 'key-removed', (_, { accountId, id, actor }, { fingerprint = '' }) =>
    removePublicKey(rules, accountId, id, fingerprint, actor),
  );
  adminAction('suspend', 'suspended', (_, { accountId, id, actor }) =>
    updateAccess(rules, accountId, id, { suspended: true }, actor),
  );
  // Each page of the directory has the button, and shows the result.
  adminAction(
    'resume',
    'resumed',
    (_, { accountId, id, actor }) => updateAccess(rules, accountId, id, { suspended: false }, actor),
    ({ tab = 'Login' }) => tab,
  );
  adminAction('access', 'saved', (c, { accountId, id, actor }, given) =>
    updateAccess(rules, accountId, id, accessFields(given, c.get('directory')), actor),
  );
}

interface WhyProps {
  readonly checks: readonly LoginCheck[];
  readonly last: { readonly login: LoginAttempt | undefined; readonly refusal: LoginAttempt | undefined };
  /** The path of the logins in the directory's history. */
  readonly activity: string;
}

const KINDS = { all: 'good', some: 'waiting', nobody: 'bad' } as const;

const Why: FC<WhyProps> = ({ checks, last: { login, refusal }, activity }) => {
  const isOver = login !== undefined && refusal !== undefined && login.at > refusal.at;
  return (
    <Section title="Why can’t they log in?" id="why">
      <ul class="checks">
        {checks.map(({ lets, text, remedy }) => (
          <li class={KINDS[lets]}>
            {text}.{remedy !== undefined && <span class="quiet"> {remedy}</span>}
          </li>
        ))}
        {refusal ? (
          <li class={isOver ? 'good' : 'bad'}>
            Last refused <Time at={refusal.at} />
            {refusal.address !== null && ` from ${refusal.address}`}: <Text of={refusal.text} most={200} />.{' '}
            <span class="quiet">
              {isOver ? (
                <>
                  A login has succeeded since, <Time at={login.at} />.
                </>
              ) : (
                remedyFor(refusal.text)
              )}
            </span>
          </li>
        ) : (
          <li class="good">
            {login ? (
              <>
                No refused logins. The last one succeeded <Time at={login.at} />.
              </>
            ) : (
              'Nobody has tried to log in yet.'
            )}
          </li>
        )}
      </ul>
      <a href={activity}>All logins</a>
    </Section>
  );
};
