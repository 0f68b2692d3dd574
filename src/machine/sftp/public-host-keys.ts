/**
 * sshd's host keys as clients see them: fingerprint, known_hosts line, SSHFP records. Only the public files are read.
 */
import { createHash } from 'node:crypto';
import { keyFingerprint } from '../../foundation/base/hashes.ts';
import { readdir, readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { errorCode } from '../../foundation/base/errors.ts';

export interface PublicHostKey {
  /** The key type's SSH name: `ssh-ed25519`, … */
  readonly type: string;
  /** `SHA256:` and base64 without padding, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
  /** A line of known_hosts (sshd(8)). It includes the port unless that is 22. */
  readonly known_hosts: string;
  /** Records for the host's zone; none when the host is an address. */
  readonly sshfp: readonly string[];
}

/** The server's address for clients. */
export interface Server {
  readonly host: string;
  readonly port: number;
}

/** SSHFP's numbers of the algorithms (RFC 4255, RFC 6594, RFC 7479). */
const ALGORITHMS: Readonly<Record<string, number>> = { 'ssh-rsa': 1, 'ecdsa-sha2': 3, 'ssh-ed25519': 4 };
/** SSHFP's numbers of the digests. */
const DIGESTS = { sha1: 1, sha256: 2 };

/** The order in which keys are shown: the type that current clients prefer comes first. */
const ORDER = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'];

export interface PublicHostKeys {
  readonly inUse: readonly PublicHostKey[];
  /** The keys of a rotation that has not been finished (`host-key-rotation.ts`). */
  readonly next: readonly PublicHostKey[];
}

/** All keys that sshd presents. */
export async function publicHostKeys(folder: string, server: Server): Promise<PublicHostKeys> {
  const names = await orWithout(readdir(folder), []);
  const files = (pattern: RegExp): string[] => names.filter((name) => pattern.test(name));
  const [inUse, next] = await Promise.all([
    readKeys(folder, files(/^ssh_host_(?!next_)\w+_key\.pub$/), server),
    readKeys(folder, files(/^ssh_host_next_\w+_key\.pub$/), server),
  ]);
  return { inUse, next };
}

async function readKeys(folder: string, files: readonly string[], server: Server): Promise<PublicHostKey[]> {
  // A file may vanish here because it has just replaced the key in use (`host-key-rotation.ts`).
  const texts = await Promise.all(files.map((name) => orWithout(readFile(join(folder, name), 'utf8'), '')));
  const keys = texts.flatMap((text) => {
    const [, type = '', base64 = ''] = /^([a-z0-9@.-]+) ([A-Za-z0-9+/]+={0,2})(?: |\n|$)/.exec(text) ?? [];
    return type === '' ? [] : hostKeyOf(type, base64, server);
  });
  return keys.toSorted((a, b) => ORDER.indexOf(a.type) - ORDER.indexOf(b.type));
}

function hostKeyOf(type: string, base64: string, { host: name, port }: Server): PublicHostKey {
  const blob = Buffer.from(base64, 'base64');
  const host = name.toLowerCase();
  return {
    type,
    fingerprint: keyFingerprint(blob),
    known_hosts: `${port === 22 ? host : `[${host}]:${port}`} ${type} ${base64}`,
    sshfp: isIP(host) === 0 ? sshfpRecords(host, type, blob) : [],
  };
}

/**
 * SSHFP records as `ssh-keygen -r` prints them. A name with a dot is complete, and gets a final dot so that no zone is
 * appended.
 */
function sshfpRecords(host: string, type: string, blob: Buffer): string[] {
  const algorithm = ALGORITHMS[type.replace(/-nistp\d+$/, '')];
  const owner = host.includes('.') && !host.endsWith('.') ? `${host}.` : host;
  return Object.entries(DIGESTS).map(
    ([digest, number]) => `${owner} IN SSHFP ${algorithm} ${number} ${createHash(digest).update(blob).digest('hex')}`,
  );
}

/** Resolves with what was read, or with `none` when there is no such file. */
async function orWithout<T>(read: Promise<T>, none: T): Promise<T> {
  try {
    return await read;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return none;
    throw error;
  }
}
