/**
 * The text for a customer who connects: the lines that "Copy" copies, and the file to send. Neither has the password
 * unless one asks for it.
 */
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import type { PublicHostKey } from '../../../../machine/sftp/public-host-keys.ts';
import { clientCommands, type SftpLogin } from './client-commands.ts';

type Directory = Pick<DirectoryRow, 'auth_mode'>;

interface Credentials {
  readonly hostKeys: readonly PublicHostKey[];
  /** The password, if it is known. */
  readonly password?: string | undefined;
}

export function lines(
  { auth_mode }: Directory,
  { host, port, username }: SftpLogin,
  { hostKeys, password }: Credentials,
): string {
  const [first] = hostKeys;
  const facts = {
    Protocol: 'SFTP',
    Host: host,
    Port: String(port),
    Username: username,
    Password: password ?? (auth_mode === 'public_key' ? undefined : 'comes in a separate message'),
    'Log in with': auth_mode === 'public_key' ? 'your private key' : undefined,
    Fingerprint: first && `${first.fingerprint} (${first.type})`,
  };
  return Object.entries(facts)
    .flatMap(([name, text]) => (text === undefined ? [] : [`${`${name}:`.padEnd(13)} ${text}\n`]))
    .join('');
}

export function instructions(directory: Directory, login: SftpLogin, hostKeys: readonly PublicHostKey[]): string {
  const { sftp, FileZilla, WinSCP } = clientCommands(login, hostKeys);
  return `How to send files by SFTP

${lines(directory, login, { hostKeys })}
FileZilla (Windows, macOS, Linux): paste this into Host and press Quickconnect.
  ${FileZilla}

WinSCP (Windows): run this.
  ${WinSCP}

Terminal (macOS, Linux, Windows): run this, then type: put FILE
  ${sftp}

At the first login, compare the fingerprint that your program shows with the one of the same type here:
${hostKeys.map(({ type, fingerprint }) => `  ${fingerprint} (${type})\n`).join('')}`;
}
