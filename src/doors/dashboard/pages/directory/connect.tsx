/** What to send to a customer: address, username, password, the server's fingerprint, and how to connect common clients. */
import type { Hono } from 'hono';
import type { Child, FC } from 'hono/jsx';
import type { CreateOptions } from '../../../../rules/directories/create.ts';
import { renewPassword } from '../../../../rules/directories/update.ts';
import { publicKeysOf } from '../../../../rules/directories/public-keys.ts';
import type { PublicHostKey, PublicHostKeys } from '../../../../machine/sftp/public-host-keys.ts';
import { Choice } from '../../components/choice.tsx';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton } from '../../components/form.tsx';
import { DirectoryLayout } from '../../components/layout.tsx';
import { Section } from '../../components/section.tsx';
import { Code, CopyButton, counted } from '../../components/values.tsx';
import { type DashboardEnv, isAdmin, type PageContext, pathOf } from '../../environment.ts';
import { type ShownOnce, showOnce, takeShownOnce } from '../../after-redirect.ts';
import { DIRECTORIES } from '../../directories-view.ts';
import { directoryActions } from './actions.ts';
import { clientCommands, type SftpLogin } from './client-commands.ts';
import { instructions, lines } from './instructions.ts';

const DONE = {
  created: 'Directory created. Send these details to your customer.',
  password: 'The new password is below. The old one no longer works.',
};

export function connectPage(
  app: Hono<DashboardEnv>,
  rules: CreateOptions,
  hostKeys: () => Promise<PublicHostKeys>,
): void {
  const { reads } = rules.database;

  async function connectionOf(c: PageContext) {
    const directory = c.get('directory');
    const { inUse, next } = await hostKeys();
    const login = { host: directory.sftp_host, port: directory.sftp_port, username: directory.sftp_username };
    return { directory, login, hostKeys: [...inUse, ...next], path: pathOf(c) };
  }

  async function page(c: PageContext) {
    const connection = await connectionOf(c);
    const keys = await publicKeysOf(reads, connection.directory.id);
    return c.render(
      <DirectoryLayout
        tab="Connect"
        done={DONE}
        actions={
          c.req.query('done') === 'created' && (
            <a class="button plain" href={`${DIRECTORIES}/new`}>
              Create another
            </a>
          )
        }
      >
        <ToSend {...connection} password={takeShownOnce(c)} keys={keys.length} isAdmin={isAdmin(c)} />
        <Clients {...connection} />
        <p>
          Customer can’t log in? <a href={`${connection.path}/login#why`}>Find out why</a>
        </p>
      </DirectoryLayout>,
    );
  }

  const { adminAction } = directoryActions(app, page, 'Connect');

  app.get('/dashboard/directories/:id/connect/instructions.txt', async (c) => {
    const { directory, login, hostKeys: keys } = await connectionOf(c);
    c.header('content-type', 'text/plain; charset=utf-8');
    c.header('content-disposition', `attachment; filename="sftp-${directory.slug}.txt"`);
    return c.body(instructions(directory, login, keys));
  });

  adminAction('password', 'password', async (c, { accountId, id, actor }) => {
    const { password } = await renewPassword(rules, accountId, id, actor);
    showOnce(c, { kind: 'sftp-password', value: password, page: `${pathOf(c)}/connect` });
  });
}

interface ConnectionProps extends DirectoryProps {
  readonly login: SftpLogin;
  readonly hostKeys: readonly PublicHostKey[];
}

interface ToSendProps extends ConnectionProps {
  /** The password, if it was just created. */
  readonly password: ShownOnce | undefined;
  /** How many public keys there are. */
  readonly keys: number;
  readonly isAdmin: boolean;
}

/** Everything that a customer needs, in one card. */
const ToSend: FC<ToSendProps> = ({ password, ...shown }) => {
  const { directory, login, hostKeys, path } = shown;
  const [first, ...others] = hostKeys;
  return (
    <Section title="Send to your customer">
      <div class="rows">
        <Row name="Host" text={login.host} />
        <Row name="Port" text={String(login.port)} />
        <Row name="Username" text={login.username} />
        {password ? (
          <Row name="Password" text={password.value} secret={password.kind}>
            <p class="notice" role="status">
              This is the only time the password is shown. Copy it now.
            </p>
          </Row>
        ) : (
          <HiddenCredentials {...shown} />
        )}
        {first && <Row name="Fingerprint" text={first.fingerprint} label={`${first.type} fingerprint`} />}
      </div>
      <div class="actions">
        <CopyButton isButton say="Copy all" text={lines(directory, login, { hostKeys, password: password?.value })} />
        <a class="button plain" href={`${path}/connect/instructions.txt`}>
          Download instructions
        </a>
      </div>
      {!password && directory.auth_mode !== 'public_key' && (
        <p class="hint">The password isn’t included. Send it separately.</p>
      )}
      <details>
        <summary>Other host keys and known_hosts</summary>
        <div class="rows">
          {others.map(({ type, fingerprint }) => (
            <Row name={type} text={fingerprint} label={`${type} fingerprint`} />
          ))}
        </div>
        <p class="quiet">With these lines in ~/.ssh/known_hosts, OpenSSH knows the server at the first login.</p>
        {hostKeys.map(({ type, known_hosts: line }) => (
          <Code text={line} label={`the ${type} line`} />
        ))}
      </details>
    </Section>
  );
};

interface RowProps {
  readonly name: string;
  readonly text: string;
  /** What the button copies, if not `name`. */
  readonly label?: string;
  readonly secret?: ShownOnce['kind'];
  readonly children?: Child;
}

const Row: FC<RowProps> = ({ name, text, label = name, secret, children }) => (
  <div>
    <span class="quiet">{name}</span>
    <code data-secret={secret}>{text}</code>
    <CopyButton text={text} label={label} />
    {children}
  </div>
);

/** What to log in with, when there is no password to show. */
const HiddenCredentials: FC<Omit<ToSendProps, 'password'>> = ({
  directory: { auth_mode: mode },
  path,
  keys,
  isAdmin: mayChange,
}) => (
  <>
    {mode !== 'public_key' && (
      <div>
        <span class="quiet">Password</span>
        <span>
          •••••••• <span class="quiet">Shown once, when it was created.</span>
        </span>
        {mayChange && (
          <ActionButton
            action={`${path}/password`}
            label="New password"
            confirm="The old password stops working at the next login."
          />
        )}
      </div>
    )}
    {mode !== 'password' && (
      <div>
        <span class="quiet">Public keys</span>
        <span>{keys === 0 ? 'none yet' : counted(keys)}</span>
        <a href={`${path}/login#public_key`}>{mayChange && keys === 0 ? 'Add one' : 'Show'}</a>
      </div>
    )}
  </>
);

/** How to use each client, beside its command. */
const HINTS = {
  sftp: 'Asks for the password. Type put FILE to upload.',
  FileZilla: 'Paste this into Host at the top of the window, enter the password, and press Quickconnect.',
  WinSCP: 'Run it in Win+R or a command prompt, and enter the password when asked.',
  lftp: 'Asks for the password. Type put FILE to upload.',
  rclone: 'Asks for the password, and lists the files. The server’s line has to be in known_hosts.',
  curl: 'Asks for the password, and lists the files. Add -T FILE to upload one.',
} as const;

const Clients: FC<ConnectionProps> = ({ login, hostKeys }) => {
  const commands = clientCommands(login, hostKeys);
  const texts = (Object.keys(HINTS) as (keyof typeof HINTS)[]).map((client) => [
    client,
    <>
      <p class="quiet">{HINTS[client]}</p>
      <Code text={commands[client]} label={`the ${client} ${client === 'FileZilla' ? 'address' : 'command'}`} />
    </>,
  ]);
  return (
    <Section title="Connect with">
      <Choice label="Client" name="client" of={Object.fromEntries(texts) as Record<string, Child>} />
    </Section>
  );
};
