/** How to connect to a directory: address, the server's fingerprints, commands for common clients, and the credentials. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { CreateOptions } from '../../../directories/create.ts';
import { renewPassword, updateAuth } from '../../../directories/update.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../../directories/public-keys.ts';
import type { PublicHostKey, PublicHostKeys } from '../../../sftp/public-host-keys.ts';
import { DirectoryLayout } from '../../components/layout.tsx';
import { Section } from '../../components/section.tsx';
import { Copyable, Facts, Secret } from '../../components/values.tsx';
import { type DashboardEnv, isAdmin, type PageContext, pathOf } from '../../environment.ts';
import { showOnce, takeShownOnce } from '../../after-redirect.ts';
import { directoryActions } from './actions.ts';
import { clientCommands, type Place } from './client-commands.ts';
import { SignIn } from './sign-in.tsx';

const DONE = {
  created: 'The directory is live.',
  saved: 'Saved.',
  'key-added': 'The key is added. It works from the next login on.',
  'key-removed': 'The key is removed. Logins with it are refused.',
  password: 'The password is replaced. The old one is refused from now on.',
};

export function connectPage(
  app: Hono<DashboardEnv>,
  rules: CreateOptions,
  hostKeys: () => Promise<PublicHostKeys>,
): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const directory = c.get('directory');
    const { inUse, next } = await hostKeys();
    const keys = [...inUse, ...next];
    const place = { host: directory.sftp_host, port: directory.sftp_port, username: directory.sftp_username };
    const commands = clientCommands(place, keys);
    return c.render(
      <DirectoryLayout tab="Connect" done={DONE}>
        <Secret of={takeShownOnce(c)} label="SFTP password">
          <p>
            <Copyable text={commands.sftp} label="Command" />
          </p>
        </Secret>
        <Connection place={place} hostKeys={keys} commands={commands} />
        <SignIn
          directory={directory}
          path={pathOf(c)}
          isAdmin={isAdmin(c)}
          keys={await publicKeysOf(reads, directory.id)}
        />
      </DirectoryLayout>,
    );
  }

  const { adminAction } = directoryActions(app, page, 'connect');

  adminAction('auth-mode', 'saved', (_, { accountId, id, actor }, { auth_mode }) =>
    updateAuth(rules, accountId, id, { auth_mode }, actor),
  );
  adminAction('password', 'password', async (c, { accountId, id, actor }) => {
    const { password } = await renewPassword(rules, accountId, id, actor);
    showOnce(c, { kind: 'sftp-password', value: password, page: `${pathOf(c)}/connect` });
  });
  adminAction('public-keys', 'key-added', (_, { accountId, id, actor }, { public_key }) =>
    addPublicKey(rules, accountId, id, { public_key }, actor),
  );
  adminAction('public-keys/remove', 'key-removed', (_, { accountId, id, actor }, { fingerprint = '' }) =>
    removePublicKey(rules, accountId, id, fingerprint, actor),
  );
}

interface ConnectionProps {
  readonly place: Place;
  readonly hostKeys: readonly PublicHostKey[];
  /** Commands by client. */
  readonly commands: Readonly<Record<string, string>>;
}

const Connection: FC<ConnectionProps> = ({ place: { host, port, username }, hostKeys, commands }) => {
  const keys = Object.fromEntries(hostKeys.map(({ type, fingerprint }) => [`${type} key`, fingerprint]));
  const lines = Object.fromEntries(hostKeys.map(({ type, known_hosts: line }) => [type, line]));
  return (
    <>
      <Section title="Server">
        <Copyables of={{ Host: host, Port: String(port), Username: username, ...keys }} />
        <details>
          <summary>Lines for known_hosts</summary>
          <p class="quiet">Add them to ~/.ssh/known_hosts, and a client recognizes the server at its first login.</p>
          <Copyables of={lines} />
        </details>
      </Section>
      <Section
        title="Commands"
        about="Each asks for the password. Paste FileZilla's address into its Host field. curl uploads with -T FILE."
      >
        <Copyables of={commands} />
      </Section>
    </>
  );
};

const Copyables: FC<{ of: Readonly<Record<string, string>> }> = ({ of }) => {
  const facts = Object.entries(of).map(([name, text]) => [name, <Copyable text={text} label={name} />]);
  return <Facts of={Object.fromEntries(facts)} />;
};
