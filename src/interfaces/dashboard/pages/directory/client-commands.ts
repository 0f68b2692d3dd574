/** Commands and addresses for connecting common clients to a directory. Each can be pasted unchanged. */
import type { PublicHostKey } from '../../../../machine/sftp/public-host-keys.ts';
import { shellWord, urlHost } from '../../../../foundation/base/text.ts';

export interface SftpLogin {
  readonly host: string;
  readonly port: number;
  readonly username: string;
}

/** The commands by the client's name. */
export function clientCommands({ host, port, username }: SftpLogin, hostKeys: readonly PublicHostKey[]) {
  const name = urlHost(host);
  const url = `sftp://${username}@${name}:${port}`;
  return {
    sftp: command('sftp', '-P', String(port), `${username}@${name}`),
    WinSCP: `winscp.exe ${url}/ -hostkey="${hostKeys.flatMap(winscpFingerprint).join(';')}"`,
    FileZilla: url,
    lftp: command('lftp', url),
    rclone: `${command('rclone', 'lsf', ':sftp:', '--sftp-host', name, '--sftp-port', String(port), '--sftp-user', username)} --sftp-ask-password --sftp-known-hosts-file ~/.ssh/known_hosts`,
    curl: command('curl', '--user', username, `sftp://${name}:${port}/files/`),
  };
}

function command(...words: readonly string[]): string {
  return words.map(shellWord).join(' ');
}

/** The bits of keys, which WinSCP has in its fingerprints. RSA is left out: its bits vary, and current clients do not need it. */
const BITS: Readonly<Record<string, number>> = { 'ssh-ed25519': 255, 'ecdsa-sha2-nistp256': 256 };

/** The fingerprint in WinSCP's format: `ssh-ed25519 255 BASE64=`. */
function winscpFingerprint({ type, fingerprint }: PublicHostKey): string[] {
  const bits = BITS[type];
  return bits === undefined ? [] : [`${type} ${bits} ${fingerprint.replace('SHA256:', '')}=`];
}
