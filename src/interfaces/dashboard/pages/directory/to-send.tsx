/** What to send to a customer: address, username, password, the server's fingerprint, and how to connect common clients. */
import type { Child, FC } from 'hono/jsx';
import type { PublicHostKey } from '../../../../machine/sftp/public-host-keys.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton } from '../../components/form.tsx';
import { Folds, Section } from '../../components/section.tsx';
import { Code, CopyButton, counted } from '../../components/values.tsx';
import type { ShownOnce } from '../../after-redirect.ts';
import { clientCommands, type SftpLogin } from './client-commands.ts';
import { lines } from './instructions.ts';

interface ConnectionProps extends DirectoryProps {
  readonly login: SftpLogin;
  readonly hostKeys: readonly PublicHostKey[];
}

interface ToSendProps extends ConnectionProps {
  /** The password or the link to it, if it was just created. */
  readonly password: ShownOnce | undefined;
  /** How many public keys there are. */
  readonly keys: number;
  readonly isAdmin: boolean;
}

/** Everything that a customer needs, in one card. */
export const ToSend: FC<ToSendProps> = ({ password, ...shown }) => {
  const { directory, login, hostKeys, path } = shown;
  const [first, ...others] = hostKeys;
  return (
    <Section title="Send to your customer">
      <div class="rows">
        <Row name="Host" text={login.host} />
        <Row name="Port" text={String(login.port)} />
        <Row name="Username" text={login.username} />
        {password ? (
          <NewPassword of={password} path={path} isAdmin={shown.isAdmin} />
        ) : (
          <HiddenCredentials {...shown} />
        )}
        {first && <Row name="Fingerprint" text={first.fingerprint} label={`${first.type} fingerprint`} />}
      </div>
      <div class="actions">
        <CopyButton
          isButton
          say={password ? 'Copy without password' : 'Copy'}
          text={lines(directory, login, { hostKeys })}
        />
        {password?.kind === 'sftp-password' && (
          <CopyButton isButton say="Copy all" text={lines(directory, login, { hostKeys, password: password.value })} />
        )}
        <a class="button plain" href={`${path}/access/instructions.txt`}>
          Download instructions
        </a>
      </div>
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

type NewPasswordProps = Pick<ToSendProps, 'path' | 'isAdmin'> & { readonly of: ShownOnce };

const NewPassword: FC<NewPasswordProps> = ({ of: { kind, value }, path, isAdmin: mayChange }) => (
  <Row name={kind === 'link' ? 'One-time link' : 'Password'} text={value} secret={kind}>
    <div class="warning">
      <span role="status">
        {kind === 'link'
          ? 'Copy the link now: it is not shown again. It shows the password once, within 7 days.'
          : 'Copy the password now: it is not shown again.'}
      </span>
      {kind !== 'link' && mayChange && (
        <LinkButton
          path={path}
          label="Send a one-time link instead"
          confirm="The link shows another password, once, within 7 days. The password on this page stops working."
        />
      )}
    </div>
  </Row>
);

const LinkButton: FC<{ path: string; label: string; confirm: string }> = ({ path, ...button }) => (
  <ActionButton action={`${path}/password`} fields={{ as: 'link' }} {...button} />
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
          •••••••• <span class="quiet">Hidden</span>
        </span>
        {mayChange && (
          <div class="actions">
            <ActionButton action={`${path}/password`} label="New password" confirm={RENEWS} />
            <LinkButton
              path={path}
              label="New password by link"
              confirm={`You get a link that shows the new password once, within 7 days. ${RENEWS}`}
            />
          </div>
        )}
      </div>
    )}
    {mode !== 'password' && (
      <div>
        <span class="quiet">Public keys</span>
        <span>{keys === 0 ? 'none yet' : counted(keys)}</span>
        <a href={`${path}/access#public_key`}>{mayChange && keys === 0 ? 'Add one' : 'Show'}</a>
      </div>
    )}
  </>
);

const RENEWS = 'The old password stops working at the next login.';

/** How to use each client, beside its command. */
const HINTS = {
  sftp: 'Asks for the password. Type put FILE to upload.',
  FileZilla: 'Paste this into Host at the top of the window, enter the password, and press Quickconnect.',
  WinSCP: 'Run it in Win+R or a command prompt, and enter the password when asked.',
  lftp: 'Asks for the password. Type put FILE to upload.',
  rclone: 'Asks for the password, and lists the files. The server’s line has to be in known_hosts.',
  curl: 'Asks for the password, and lists the files. Add -T FILE to upload one.',
} as const;

export const Clients: FC<ConnectionProps> = ({ login, hostKeys }) => {
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
      <Folds name="client" of={Object.fromEntries(texts) as Record<string, Child>} />
    </Section>
  );
};
