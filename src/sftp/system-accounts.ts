/**
 * The only accounts that exist for our sshd beside the SFTP users, all locked. The machine's own accounts do not exist
 * there, so nobody can try an administrator's password through it.
 */

/** Right below the SFTP users' range (accounts given out begin at 1879048192), so that no other process has this UID. */
const SSHD_UID = 1_879_048_191;
/** The user as whom sshd runs openssh/authorized-keys, and its group, which may read the key files. */
export const KEYS_ID = 1_879_048_190;
const NOBODY_UID = 65_534;

const ACCOUNTS = [
  { name: 'root', id: 0, group: 'root' },
  // sshd's network process, shut in before the login (README.privsep of OpenSSH).
  { name: 'sshd', id: SSHD_UID, group: 'sshd' },
  { name: 'berth-keys', id: KEYS_ID, group: 'berth-keys' },
  { name: 'nobody', id: NOBODY_UID, group: 'nogroup' },
];

/** The contents of passwd(5), group(5) and shadow(5). */
export function systemAccounts(): { passwd: string; group: string; shadow: string } {
  const lines = (line: (account: (typeof ACCOUNTS)[number]) => string): string => `${ACCOUNTS.map(line).join('\n')}\n`;
  return {
    passwd: lines(({ name, id }) => `${name}:x:${id}:${id}::/nonexistent:/usr/sbin/nologin`),
    group: lines(({ group, id }) => `${group}:x:${id}:`),
    shadow: lines(({ name }) => `${name}:*:0:0:99999:7:::`),
  };
}
