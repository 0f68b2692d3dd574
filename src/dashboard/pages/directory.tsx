/** A directory: how one gets in, who may, what it is, and its end. Its forms post to paths below it. */
import type { Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { updateAccess } from '../../directories/access.ts';
import type { CreateDependencies } from '../../directories/create.ts';
import { deleteDirectory } from '../../directories/delete.ts';
import { renewPassword } from '../../directories/password.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../directories/public-keys.ts';
import { setQuota } from '../../directories/quota.ts';
import { liveDirectory, type Target } from '../../directories/target.ts';
import { updateAuth, updateBasics } from '../../directories/update.ts';
import { BerthError, type FieldErrors, ValidationError } from '../../errors.ts';
import type { PublicHostKeys } from '../../sftp/public-host-keys.ts';
import { DirectoryState } from '../components/directory-state.tsx';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { Secret } from '../components/secret.tsx';
import { Copyable } from '../components/values.tsx';
import { type DashboardEnv, targetOf } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';
import { Access, accessFields, quotaFields } from './directory/access.tsx';
import { clientCommands } from './directory/client-commands.ts';
import { Connection } from './directory/connection.tsx';
import { Delete, Details, isNameTyped, Settings, settingsFields } from './directory/settings.tsx';
import { SignIn } from './directory/sign-in.tsx';

const PATH = '/dashboard/directories/:id';
const pathOf = (id: string): string => `/dashboard/directories/${id}`;

/** What has just been done, by the code in the address. */
const DONE = {
  created: 'The directory is live.',
  saved: 'Saved.',
  'key-added': 'The key is added. It counts from the next login on.',
  'key-removed': 'The key is removed. Nobody logs in with it any more.',
  password: 'There is a new password. The old one is refused from now on.',
  suspended: 'Suspended. Live sessions have ended, and nobody can log in.',
  resumed: 'Resumed. Logins work as before.',
};

interface Refused {
  readonly given?: FormFields;
  readonly errors?: FieldErrors | undefined;
  readonly problem?: string;
  readonly status?: ContentfulStatusCode;
}

type Change = (target: Target, fields: FormFields) => Promise<unknown>;

export function directoryPage(
  app: Hono<DashboardEnv>,
  rules: CreateDependencies,
  hostKeys: () => Promise<PublicHostKeys>,
): void {
  const { reads } = rules.database;

  async function page(c: Context<DashboardEnv>, id: string, refused: Refused = {}) {
    const { given = {}, errors, problem, status } = refused;
    const directory = await liveDirectory(reads, targetOf(c, id));
    const { inUse, next } = await hostKeys();
    const keys = [...inUse, ...next];
    const failing = await failingWebhooks(reads, [id]);
    const isAdmin = c.get('user').principal.role === 'admin';
    const shown = { directory, path: pathOf(id), isAdmin, given, errors };
    const { sftp_host: host, sftp_port: port, sftp_username: username } = directory;
    const command = clientCommands({ host, port, username }, keys)['sftp'] ?? '';
    if (status) c.status(status);
    return c.render(
      <DirectoryLayout directory={directory} tab="Overview" notice={noticeOf(c, DONE)} problem={problem}>
        <p>
          <DirectoryState of={directory} isFailing={failing.has(id)} now={rules.clock.now()} />
        </p>
        <Secret secret={takeShownOnce(c)} label="SFTP password">
          <p>
            <Copyable text={command} label="Command" />
          </p>
        </Secret>
        <Connection directory={directory} hostKeys={keys} />
        <SignIn {...shown} keys={await publicKeysOf(reads, id)} />
        <Access {...shown} />
        <Settings {...shown} />
        <Details directory={directory} />
        <Delete {...shown} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, (c) => page(c, c.req.param('id')));

  /** A form: what it changes, and where it leads then. */
  const changed = async (c: Context<DashboardEnv>, id: string, change: Change, next: string) => {
    const given = await formFields(c);
    try {
      const errors = await fieldErrors(() => change(targetOf(c, id), given));
      if (errors) return await page(c, id, { given, errors, status: 422 });
    } catch (error) {
      if (!(error instanceof BerthError && error.code === 'quota_unavailable')) throw error;
      return page(c, id, { given, problem: `${error.message}.`, status: 409 });
    }
    return c.redirect(next, 303);
  };

  /** What members change as well. */
  const action = (name: string, done: string, change: Change): void => {
    app.post(`${PATH}/${name}`, (c) => {
      const id = c.req.param('id');
      return changed(c, id, change, `${pathOf(id)}?done=${done}`);
    });
  };
  const adminAction = (name: string, done: string, change: Change): void => {
    app.use(`${PATH}/${name}`, adminOnly);
    action(name, done, change);
  };

  action('settings', 'saved', async (target, given) => {
    const fields = settingsFields(given, await liveDirectory(reads, target));
    return updateBasics(rules, target.accountId, target.id, fields, target.asker);
  });
  adminAction('auth-mode', 'saved', ({ accountId, id, asker }, { auth_mode }) =>
    updateAuth(rules, accountId, id, { auth_mode }, asker),
  );
  adminAction('public-keys', 'key-added', ({ accountId, id, asker }, { public_key }) =>
    addPublicKey(rules, accountId, id, { public_key }, asker),
  );
  adminAction('public-keys/remove', 'key-removed', async (target, { fingerprint = '' }) => {
    await liveDirectory(reads, target);
    return removePublicKey(rules, target.accountId, target.id, fingerprint, target.asker);
  });
  for (const [name, done, suspended] of [
    ['suspend', 'suspended', true],
    ['resume', 'resumed', false],
  ] as const)
    adminAction(name, done, ({ accountId, id, asker }) => updateAccess(rules, accountId, id, { suspended }, asker));
  adminAction('access', 'saved', async (target, given) => {
    const { expires_at } = await liveDirectory(reads, target);
    return updateAccess(rules, target.accountId, target.id, accessFields(given, expires_at), target.asker);
  });
  adminAction('quota', 'saved', (target, given) => setQuota(rules, target, quotaFields(given)));

  app.post(`${PATH}/password`, adminOnly, (c) => {
    const id = c.req.param('id');
    const renew: Change = async ({ accountId, asker }) => {
      const { password } = await renewPassword(rules, accountId, id, asker);
      showOnce(c, { kind: 'sftp-password', value: password, page: pathOf(id) });
    };
    return changed(c, id, renew, `${pathOf(id)}?done=password`);
  });

  app.post(`${PATH}/delete`, (c) => {
    const remove: Change = async (target, { confirmation = '' }) => {
      const { name } = await liveDirectory(reads, target);
      if (!isNameTyped(confirmation, name))
        throw new ValidationError({ confirmation: ['is not the name of this directory'] });
      await deleteDirectory(rules, target.accountId, target.id, target.asker);
    };
    return changed(c, c.req.param('id'), remove, '/dashboard/directories?done=deleted');
  });
}
