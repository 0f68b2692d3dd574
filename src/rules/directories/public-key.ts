/**
 * Parses OpenSSH public keys. Accepts exactly what sshd accepts from an authorized_keys line without options, so that every
 * stored key works, and only for the holder of its private key. Keeps only type and base64, so that no option or second line
 * can ever reach sshd.
 *
 * sshpk reads the common types. It does not know FIDO keys, which are an ordinary key followed by an application's name
 * (OpenSSH, PROTOCOL.u2f): of these, the ordinary key is checked.
 */
import { createPublicKey } from 'node:crypto';
import sshpk from 'sshpk';
import type { FieldProblem } from '../../foundation/base/problems.ts';
import { keyFingerprint } from '../../foundation/base/hashes.ts';

export interface PublicKey {
  readonly type: string;
  /** `type base64`. */
  readonly line: string;
  /** The text after the key: shown to users, never passed to sshd. Null when there was none. */
  readonly comment: string | null;
  readonly fingerprint: string;
  /** Why the key is too weak for logins; undefined for a strong key. */
  readonly weakness?: FieldProblem;
}

/** Matches in linear time: no two parts beside each other may take the same character. */
const LINE = /^([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t]([^\r\n\0]*))?$/;
const COMMENT_LENGTH = 255;
const ORDINARY = new Set([
  'ssh-rsa',
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
]);
/** The ordinary type inside each FIDO type, and how many strings of the blob belong to it after the type's name. */
const FIDO = new Map([
  ['sk-ssh-ed25519@openssh.com', { type: 'ssh-ed25519', parts: 1 }],
  ['sk-ecdsa-sha2-nistp256@openssh.com', { type: 'ecdsa-sha2-nistp256', parts: 2 }],
]);
/** RequiredRSASize in openssh/sshd_config, and the largest number that OpenSSH reads from a blob (sshbuf.h, SSHBUF_MAX_BIGNUM). */
const RSA_BITS = { min: 2048, max: 16_384 };

/** The key in a line or in an RFC 4716 file, or undefined when OpenSSH would not accept it. */
export function parsePublicKey(text: string): PublicKey | undefined {
  const [, type = '', base64 = '', comment = ''] = LINE.exec(lineIn(text.trim())) ?? [];
  const blob = Buffer.from(base64, 'base64');
  if (blob.length === 0 || blob.toString('base64') !== base64) return undefined;
  const ordinary = ORDINARY.has(type) ? { type, blob } : insideFido(type, blob);
  const key = ordinary && soundKey(ordinary.type, ordinary.blob);
  if (!key) return undefined;
  const weakness = weaknessOf(key);
  return {
    type,
    line: `${type} ${base64}`,
    comment: shortened(comment.trim()) || null,
    fingerprint: keyFingerprint(blob),
    ...(weakness && { weakness }),
  };
}

const EXAMPLE = 'one line such as ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH… name';
const PASTED: readonly (readonly [RegExp, string])[] = [
  [
    /^PuTTY-User-Key-File-\d/,
    'it is a .ppk file with a private key, which berth has not stored. Open it in PuTTYgen, and copy the public key for authorized_keys',
  ],
  [
    /PRIVATE KEY/,
    'it is a private key, which berth has not stored. Take the .pub file beside it, or make it with ssh-keygen -y',
  ],
  [
    /-----BEGIN CERTIFICATE-----/,
    `it is an X.509 certificate. Make a key with ssh-keygen, and take its .pub file: ${EXAMPLE}`,
  ],
  [
    /-----BEGIN (?:RSA )?PUBLIC KEY-----/,
    'it is a PEM file. ssh-keygen -i -m PKCS8 -f FILE converts it (PEM instead of PKCS8 if it begins with BEGIN RSA)',
  ],
  [/^\S+-cert-v01@openssh\.com\s/, `it is an OpenSSH certificate. Take the key's own .pub file: ${EXAMPLE}`],
  [/^ssh-dss\s/, 'it is a DSA key, which sshd no longer takes. Make one with ssh-keygen -t ed25519'],
  [/\S\s*\n\s*\S/, 'it has several lines. Give one key at a time, without line breaks in it'],
];

/** What is wrong with a text that is no public key, without repeating it: it may be a secret. */
export function whyNoPublicKey(text: string): string {
  const trimmed = text.trim();
  const [, reason] = PASTED.find(([pattern]) => pattern.test(trimmed)) ?? [];
  return reason ?? `it should be ${EXAMPLE}`;
}

/** Turns an RFC 4716 file ("SSH2 public key"), as PuTTYgen saves keys, into a line. Any other text is returned as it is. */
function lineIn(text: string): string {
  const [, content] = /^---- BEGIN SSH2 PUBLIC KEY ----\r?\n(.*\n)---- END SSH2 PUBLIC KEY ----$/s.exec(text) ?? [];
  if (content === undefined) return text;
  // A header may go on in the next line. Base64 has no colon.
  const lines = content.replaceAll(/\\\r?\n/g, '').split(/\r?\n/);
  const base64 = lines.filter((line) => !line.includes(':')).join('');
  const comment = lines
    .find((line) => /^comment:/i.test(line))
    ?.slice('comment:'.length)
    .trim();
  const [type] = readStrings(Buffer.from(base64, 'base64')) ?? [];
  return `${type?.toString('latin1') ?? ''} ${base64} ${comment?.replace(/^"/, '').replace(/"$/, '') ?? ''}`.trim();
}

/** Makes a comment well-formed Unicode, and short enough to be listed. */
function shortened(comment: string): string {
  return Array.from(comment.toWellFormed()).slice(0, COMMENT_LENGTH).join('');
}

function weaknessOf({ type, size, parts }: sshpk.Key): FieldProblem | undefined {
  if (type !== 'rsa') return undefined;
  if (size < RSA_BITS.min) return ['short_key', size, RSA_BITS.min];
  // Anybody can sign for an exponent of 1; an even one belongs to no RSA key.
  const exponent = parts.find(({ name }) => name === 'e')?.data ?? Buffer.alloc(0);
  const isOdd = ((exponent.at(-1) ?? 0) & 1) === 1;
  return isOdd && !exponent.equals(Buffer.of(1)) ? undefined : ['weak_exponent'];
}

/** The ordinary key inside a FIDO key, whose blob is `string type, its parts, string application` and nothing else. */
function insideFido(type: string, blob: Buffer): { type: string; blob: Buffer } | undefined {
  const inner = FIDO.get(type);
  const strings = readStrings(blob);
  if (!inner || strings?.length !== inner.parts + 2 || strings[0]?.toString('latin1') !== type) return undefined;
  // OpenSSH reads the application as a C string.
  const application = strings.at(-1);
  if (!application || application.includes(0)) return undefined;
  return { type: inner.type, blob: writeStrings([Buffer.from(inner.type), ...strings.slice(1, -1)]) };
}

/** The key in a blob of that ordinary type, or undefined when OpenSSH would not read it. */
function soundKey(type: string, blob: Buffer): sshpk.Key | undefined {
  const [name, first, point] = readStrings(blob) ?? [];
  if (name?.toString('latin1') !== type) return undefined;
  if (type === 'ssh-ed25519' && first?.length !== 32) return undefined;
  // OpenSSH takes uncompressed points only (RFC 5656, section 3.1, leaves it the choice).
  if (type.startsWith('ecdsa-') && point?.[0] !== 0x04) return undefined;
  try {
    const key = sshpk.parseKey(`${type} ${blob.toString('base64')}`, 'ssh');
    // sshpk normalizes keys that sshd refuses (negative or padded numbers, trailing bytes); a valid key comes back unchanged.
    if (!key.toBuffer('rfc4253').equals(blob)) return undefined;
    if (key.type === 'rsa' && key.size > RSA_BITS.max) return undefined;
    // OpenSSL checks that a point is on its curve.
    createPublicKey(key.toString('pkcs8'));
    return key;
  } catch {
    return undefined;
  }
}

/** The strings in SSH's wire format (RFC 4251, section 5) that make up the blob; undefined when it is anything else. */
function readStrings(blob: Buffer): Buffer[] | undefined {
  const strings: Buffer[] = [];
  for (let at = 0; at < blob.length;) {
    if (at + 4 > blob.length) return undefined;
    const end = at + 4 + blob.readUInt32BE(at);
    if (end > blob.length) return undefined;
    strings.push(blob.subarray(at + 4, end));
    at = end;
  }
  return strings;
}

function writeStrings(strings: readonly Buffer[]): Buffer {
  return Buffer.concat(
    strings.flatMap((string) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(string.length);
      return [length, string];
    }),
  );
}
