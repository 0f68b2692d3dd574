/**
 * How customers log in to a directory: what stops them, with the remedy; what to send to them; and who may log in. The settings
 * take effect at the next login.
 */
import { apiOrigin } from '../../../../foundation/base/config.ts';
import { renewPasswordByLink } from '../../../../arrivals/links/password.ts';
import type { AppContext } from '../../../web/context.ts';
import type { Hono } from 'hono';
import { accessOf, renewPassword, updateAccess, updateAuth } from '../../../../rules/directories/update.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../../../rules/directories/public-keys.ts';
import { loginChecks } from '../../../../operating/reports/login-rules.ts';
import { DirectoryLayout } from '../../components/layout.tsx';
import { type DashboardEnv, isAdmin, type PageContext, pathOf } from '../../environment.ts';
import { showOnce, takeShownOnce } from '../../after-redirect.ts';
import { DIRECTORIES } from '../../directories-view.ts';
import { lastLogins } from '../../../../operating/reports/failed-logins.ts';
import { directoryActions } from './actions.ts';
import { instructions } from './instructions.ts';
import { Limits, limitFields } from './limits.tsx';
import { LoginProblem } from './login-problem.tsx';
import { SignIn } from './sign-in.tsx';
import { Clients, ToSend } from './to-send.tsx';

const DONE = {
  created: 'Created.',
  password: 'There is a new password. The old one no longer works.',
  saved: 'Saved.',
  allowed: 'Allowed. Logins from this address work from now on.',
  suspended: 'Suspended. Live sessions have ended.',
  'key-added': 'The key is added. It works from the next login on.',
  'key-removed': 'The key is removed. Logins with it fail.',
};

export function accessPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const { database, hostKeys, logins } = context;
  const { reads } = database;

  async function connectionOf(c: PageContext) {
    const directory = c.get('directory');
    const { inUse, next } = await hostKeys();
    const login = { host: directory.sftp_host, port: directory.sftp_port, username: directory.sftp_username };
    return { directory, login, hostKeys: [...inUse, ...next], path: pathOf(c) };
  }

  async function page(c: PageContext) {
    const connection = await connectionOf(c);
    const { directory, path } = connection;
    const keys = await publicKeysOf(reads, directory.id);
    const now = context.clock.now();
    const shown = { directory, path, isAdmin: isAdmin(c) };
    const password = takeShownOnce(c);
    const problem = (
      <LoginProblem
        {...shown}
        checks={loginChecks(directory, { keys: keys.length, now })}
        last={await lastLogins(reads, logins, directory)}
        now={now}
      />
    );
    const toSend = <ToSend {...connection} password={password} keys={keys.length} isAdmin={isAdmin(c)} />;
    return c.render(
      <DirectoryLayout
        tab="Access"
        done={DONE}
        actions={
          c.req.query('done') === 'created' && (
            <a class="button plain" href={`${DIRECTORIES}/new`}>
              Create another
            </a>
          )
        }
      >
        {password ? [toSend, problem] : [problem, toSend]}
        <SignIn {...shown} keys={keys} />
        <Limits {...shown} />
        <Clients {...connection} />
      </DirectoryLayout>,
    );
  }

  const { adminAction } = directoryActions(app, page, 'Access');

  // The second is the address that instructions had before.
  for (const parent of ['access', 'connect'])
    app.get(`/dashboard/directories/:id/${parent}/instructions.txt`, async (c) => {
      const { directory, login, hostKeys: keys } = await connectionOf(c);
      c.header('content-type', 'text/plain; charset=utf-8');
      c.header('content-disposition', `attachment; filename="sftp-${directory.slug}.txt"`);
      return c.body(instructions(directory, login, keys));
    });

  adminAction('password', 'password', async (c, target, { as }) => {
    const shownOn = `${pathOf(c)}/access`;
    if (as === 'link') {
      const value = apiOrigin(context.config) + (await renewPasswordByLink(context, target));
      return showOnce(c, { kind: 'link', value, page: shownOn });
    }
    const { password: value } = await renewPassword(context, target);
    showOnce(c, { kind: 'sftp-password', value, page: shownOn });
  });
  adminAction('auth-mode', 'saved', (_, target, { auth_mode }) => updateAuth(context, target, { auth_mode }));
  adminAction('public-keys', 'key-added', (_, target, { public_key }) => addPublicKey(context, target, { public_key }));
  adminAction('public-keys/remove', 'key-removed', (_, target, { fingerprint = '' }) =>
    removePublicKey(context, target, fingerprint),
  );
  adminAction('suspend', 'suspended', (_, target) => updateAccess(context, target, { suspended: true }));
  // Each page of the directory has the button, and shows the result.
  adminAction(
    'resume',
    'resumed',
    (_, target) => updateAccess(context, target, { suspended: false }),
    ({ tab = 'Access' }) => tab,
  );
  adminAction('access/limits', 'saved', (c, target, given) =>
    updateAccess(context, target, limitFields(given, c.get('directory'))),
  );
  adminAction('access/allow', 'allowed', async (_, target, { address = '' }) => {
    const { allowed_networks: allowed } = await accessOf(reads, target);
    // An empty list allows every address already.
    if (allowed.length === 0) return;
    await updateAccess(context, target, { allowed_networks: [...allowed, address] });
  });
}
