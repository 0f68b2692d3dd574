/** A directory: how one gets in, who may, what it is, and its end. Its forms post to paths below it. */
import type { Hono } from 'hono';
import { updateAccess } from '../../directories/access.ts';
import type { CreateDependencies } from '../../directories/create.ts';
import { deleteDirectory } from '../../directories/delete.ts';
import { renewPassword } from '../../directories/password.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../directories/public-keys.ts';
import { setQuota } from '../../directories/quota.ts';
import type { Target } from '../../directories/target.ts';
import { updateAuth, updateBasics } from '../../directories/update.ts';
import { ValidationError } from '../../errors.ts';
import type { PublicHostKeys } from '../../sftp/public-host-keys.ts';
import { DirectoryState } from '../components/directory.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Copyable, Secret } from '../components/values.tsx';
import { type DashboardEnv, type FormFields, isAdmin, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';
import { Access, accessFields, quotaFields } from './directory/access.tsx';
import { clientCommands } from './directory/client-commands.ts';
import { Connection } from './directory/connection.tsx';
import { Delete, Details, isNameTyped, Settings, settingsFields } from './directory/settings.tsx';
import { SignIn } from './directory/sign-in.tsx';

const PATH = '/dashboard/directories/:id';

const DONE = {
  created: 'The directory is live.',
  saved: 'Saved.',
  'key-added': 'The key is added. It counts from the next login on.',
  'key-removed': 'The key is removed. Nobody logs in with it any more.',
  password: 'There is a new password. The old one is refused from now on.',
  suspended: 'Suspended. Live sessions have ended, and nobody can log in.',
  resumed: 'Resumed. Logins work as before.',
};

export function directoryPage(
  app: Hono<DashboardEnv>,
  rules: CreateDependencies,
  hostKeys: () => Promise<PublicHostKeys>,
): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const directory = c.get('directory');
    const { inUse, next } = await hostKeys();
    const keys = [...inUse, ...next];
    const failing = await failingWebhooks(reads, [directory.id]);
    const shown = { directory, path: pathOf(c), isAdmin: isAdmin(c) };
    const { sftp_host: host, sftp_port: port, sftp_username: username } = directory;
    const place = { host, port, username };
    const commands = clientCommands(place, keys);
    return c.render(
      <DirectoryLayout tab="Overview" done={DONE}>
        <p>
          <DirectoryState of={directory} isFailing={failing.has(directory.id)} now={rules.clock.now()} />
        </p>
        <Secret of={takeShownOnce(c)} label="SFTP password">
          <p>
            <Copyable text={commands.sftp} label="Command" />
          </p>
        </Secret>
        <Connection place={place} hostKeys={keys} commands={commands} />
        <SignIn {...shown} keys={await publicKeysOf(reads, directory.id)} />
        <Access {...shown} />
        <Settings {...shown} />
        <Details directory={directory} />
        <Delete {...shown} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  type Change = (c: PageContext, target: Target, given: FormFields) => Promise<unknown>;

  /** What members change as well. */
  const action = (name: string, done: string, change: Change): void => {
    app.post(`${PATH}/${name}`, (c) =>
      submitted(c, page, async (given) => {
        await change(c, targetOf(c), given);
        return `${pathOf(c)}?done=${done}`;
      }),
    );
  };
  const adminAction = (name: string, done: string, change: Change): void => {
    app.use(`${PATH}/${name}`, adminOnly);
    action(name, done, change);
  };

  action('settings', 'saved', (c, { accountId, id, asker }, given) =>
    updateBasics(rules, accountId, id, settingsFields(given, c.get('directory')), asker),
  );
  adminAction('auth-mode', 'saved', (_, { accountId, id, asker }, { auth_mode }) =>
    updateAuth(rules, accountId, id, { auth_mode }, asker),
  );
  adminAction('password', 'password', async (c, { accountId, id, asker }) => {
    const { password } = await renewPassword(rules, accountId, id, asker);
    showOnce(c, { kind: 'sftp-password', value: password, page: pathOf(c) });
  });
  adminAction('public-keys', 'key-added', (_, { accountId, id, asker }, { public_key }) =>
    addPublicKey(rules, accountId, id, { public_key }, asker),
  );
  adminAction('public-keys/remove', 'key-removed', (_, { accountId, id, asker }, { fingerprint = '' }) =>
    removePublicKey(rules, accountId, id, fingerprint, asker),
  );
  for (const [name, done, suspended] of [
    ['suspend', 'suspended', true],
    ['resume', 'resumed', false],
  ] as const)
    adminAction(name, done, (_, { accountId, id, asker }) => updateAccess(rules, accountId, id, { suspended }, asker));
  adminAction('access', 'saved', (c, { accountId, id, asker }, given) =>
    updateAccess(rules, accountId, id, accessFields(given, c.get('directory').expires_at), asker),
  );
  adminAction('quota', 'saved', (_, target, given) => setQuota(rules, target, quotaFields(given)));

  app.post(`${PATH}/delete`, (c) =>
    submitted(c, page, async ({ confirmation = '' }) => {
      if (!isNameTyped(confirmation, c.get('directory').name))
        throw new ValidationError({ confirmation: ['is not the name of this directory'] });
      const { accountId, id, asker } = targetOf(c);
      await deleteDirectory(rules, accountId, id, asker);
      return '/dashboard/directories?done=deleted';
    }),
  );
}
