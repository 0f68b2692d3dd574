/**
 * The files that let a user log in: four small files that sshd reads at every login, even while berth is down. A user
 * exists once the last file is in place. The limit is removed first, so that a DELETE also stops logins in progress
 * (openssh/admit).
 */
import { opendir } from 'node:fs/promises';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import type { HostedDirectory } from '../../rules/directories/host.ts';
import { isFile, removeFile, replaceFile } from './files.ts';
import { KEYS_ID, type Paths } from './paths.ts';

type User = Omit<HostedDirectory, 'id'>;

interface CredentialFile {
  readonly path: string;
  /** Undefined when there must be no file. */
  readonly text: string | undefined;
  readonly mode: number;
  readonly gid?: number;
}

/** The files in the order in which they are written. `pathsOfUser` has the order of removal. */
function filesOf(paths: Paths, user: User): CredentialFile[] {
  const path = pathsOfUser(paths, user.sftp_username);
  return [
    { path: path.limit, text: limitFile(user), mode: 0o600 },
    { path: path.key, text: allowedKeys(user), mode: 0o640, gid: KEYS_ID },
    { path: path.privileged, text: `${JSON.stringify(privilegedRecord(user))}\n`, mode: 0o600 },
    { path: path.record, text: `${JSON.stringify(userRecord(paths, user))}\n`, mode: 0o644 },
  ];
}

function pathsOfUser(paths: Paths, username: string) {
  return {
    limit: join(paths.limits, username),
    record: join(paths.userdb, `${username}.user`),
    privileged: join(paths.userdb, `${username}.user-privileged`),
    key: join(paths.authorizedKeys, username),
  };
}

/** A key as the rules store it: type and base64. Options and comments are never written. */
const KEY = /^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}$/;

/** The keys that may log in under the directory's mode, one per line. */
function allowedKeys(user: User): string | undefined {
  if (user.auth_mode === 'password') return undefined;
  const lines = user.public_key?.split('\n').filter((line) => KEY.test(line)) ?? [];
  return lines.length > 0 ? lines.map((line) => `${line}\n`).join('') : undefined;
}

/** JSON User Records (systemd.io), which glibc reads through nss-systemd(8) by the file's name. */
function userRecord(paths: Paths, user: User): object {
  return {
    userName: user.sftp_username,
    uid: user.uid,
    gid: user.uid,
    homeDirectory: paths.jail(user.sftp_username),
    shell: '/usr/sbin/nologin',
    // Without a disposition, nss-systemd ignores a record with a UID of this range.
    disposition: 'regular',
  };
}

function privilegedRecord(user: User): object {
  return { privileged: { hashedPassword: [user.auth_mode === 'public_key' ? '*' : user.password_hash] } };
}

/** Writes the user's credentials. Once this returns, the user can log in with the methods that the mode allows. */
export function writeCredentials(paths: Paths, user: User): void {
  for (const { path, text, mode, gid } of filesOf(paths, user)) {
    if (text === undefined) removeFile(path);
    else replaceFile(path, text, mode, gid);
  }
}

/** Whether `writeCredentials` would change nothing. */
export function areCredentialsRight(paths: Paths, user: User): boolean {
  return filesOf(paths, user).every(({ path, text, mode, gid }) =>
    text === undefined ? !lstatSync(path, { throwIfNoEntry: false }) : isFile(path, text, mode, gid),
  );
}

/** Removes the user's credentials, so that no further login succeeds. Returns whether there were any. */
export function removeCredentials(paths: Paths, username: string): boolean {
  return credentialFiles(paths, username).map(removeFile).includes(true);
}

/** The paths of all credential files that a user may have. */
export function credentialFiles(paths: Paths, username: string): string[] {
  return Object.values(pathsOfUser(paths, username));
}

/** Every username that has a credential file, or a temporary one that a crash left. */
export async function usersWithCredentials(paths: Paths): Promise<Set<string>> {
  const users = new Set<string>();
  for await (const { name } of await opendir(paths.userdb)) {
    const username = userOfRecord(name);
    if (username !== undefined) users.add(username);
  }
  for (const folder of [paths.authorizedKeys, paths.limits])
    for await (const { name } of await opendir(folder)) users.add(name.replace(/\.new$/, ''));
  return users;
}

/** The username to which a file of the userdb folder belongs, or undefined for a file that is not berth's. */
export function userOfRecord(file: string): string | undefined {
  return /^(.+)\.user(?:-privileged)?(?:\.new)?$/.exec(file)?.[1];
}

import ipaddr from 'ipaddr.js';

type Admission = Pick<HostedDirectory, 'max_connections' | 'suspended' | 'expires_at' | 'allowed_networks'>;

/**
 * The file that openssh/admit reads at every login: whether a user may log in, with how many connections at a
 * time, until when, and from which networks.
 *
 *     suspended                          or:  MAX_CONNECTIONS [EXPIRES_AT|never [networks]]
 *     10.*.*                                  10.0.0.0/8
 *     192.168.[4567].*                        192.168.4.0/22
 *     2001:db8:[89ab][0-9a-f][0-9a-f][0-9a-f]:*    2001:db8:8000::/34
 *
 * EXPIRES_AT is in µs since 1970. A network is written as shell patterns that match the text of its addresses, so that a
 * login needs no arithmetic: IPv4 as usual, IPv6 as eight groups without leading zeros. Fields without a limit are left
 * out, so the file is then the same as that of older versions.
 */
export function limitFile({ max_connections, suspended, expires_at, allowed_networks }: Admission): string {
  if (suspended === 1) return 'suspended\n';
  const networks = JSON.parse(allowed_networks) as string[];
  if (networks.length > 0)
    return [`${max_connections} ${expires_at ?? 'never'} networks`, ...networks.flatMap(patternsOf), ''].join('\n');
  return expires_at === null ? `${max_connections}\n` : `${max_connections} ${expires_at}\n`;
}

/** The shell patterns of a CIDR. */
function patternsOf(network: string): string[] {
  const [address, bits] = ipaddr.parseCIDR(network);
  const [parts, size, base, separator] =
    address instanceof ipaddr.IPv4 ? [address.octets, 8, 10, '.'] : [address.parts, 16, 16, ':'];
  const at = Math.floor(bits / size);
  const before = parts.slice(0, at).map((part) => part.toString(base));
  const part = parts[at];
  if (part === undefined) return [before.join(separator)];
  const count = 2 ** (size - (bits % size));
  const choices = count === 2 ** size ? ['*'] : numerals(part, part + count - 1, base);
  const after = at + 1 < parts.length ? ['*'] : [];
  return choices.map((choice) => [...before, choice, ...after].join(separator));
}

/** Shell patterns of all numbers from `first` to `last`, without leading zeros. */
function numerals(first: number, last: number, base: number): string[] {
  const patterns: string[] = [];
  for (let digits = 1, low = 0; low <= last; digits += 1) {
    const next = base ** digits;
    if (next > first) patterns.push(...ofLength(digits, Math.max(first, low), Math.min(last, next - 1), base));
    low = next;
  }
  return patterns;
}

/** Like `numerals`, for numbers of a fixed count of digits, leading zeros included. */
function ofLength(digits: number, first: number, last: number, base: number): string[] {
  if (digits === 0) return [''];
  const unit = base ** (digits - 1);
  const patterns: string[] = [];
  let whole = '';
  for (let digit = Math.floor(first / unit); digit * unit <= last; digit += 1) {
    const low = Math.max(first - digit * unit, 0);
    const high = Math.min(last - digit * unit, unit - 1);
    if (low === 0 && high === unit - 1) whole += digit.toString(base);
    else patterns.push(...ofLength(digits - 1, low, high, base).map((rest) => digit.toString(base) + rest));
  }
  const any = base === 16 ? '[0-9a-f]' : '[0-9]';
  if (whole !== '') patterns.push((whole.length === 1 ? whole : `[${whole}]`) + any.repeat(digits - 1));
  return patterns;
}
