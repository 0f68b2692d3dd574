/**
 * OpenSSH public keys. Accepts what sshd would accept from an authorized_keys line without options, and nothing else,
 * so that a key we store is a key that logs in; keeps only type and base64, so that no option or second line can
 * ever reach sshd.
 *
 * sshpk reads the common types. FIDO keys, which it does not know, are an ordinary key with an application's name
 * after it (OpenSSH, PROTOCOL.u2f): they are checked by that ordinary key.
 */
import { createHash, createPublicKey } from 'node:crypto';
import sshpk from 'sshpk';

export interface PublicKey {
  /** `type base64`. */
  readonly line: string;
  /** `SHA256:` and base64 without padding, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
}

const LINE = /^([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t]+[^\r\n\0]*)?$/;
const ORDINARY = new Set([
  'ssh-rsa',
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
]);
/** The ordinary type inside each FIDO type, and how many strings of the blob it takes after its own name. */
const FIDO = new Map([
  ['sk-ssh-ed25519@openssh.com', { type: 'ssh-ed25519', parts: 1 }],
  ['sk-ecdsa-sha2-nistp256@openssh.com', { type: 'ecdsa-sha2-nistp256', parts: 2 }],
]);
/** sshd_config(5), RequiredRSASize; and the largest number that OpenSSH reads from a blob (sshbuf.h, SSHBUF_MAX_BIGNUM). */
const RSA_BITS = { min: 1024, max: 16_384 };

/** The key in the text, or undefined when sshd would not take it. A comment and blanks around it are dropped. */
export function parsePublicKey(text: string): PublicKey | undefined {
  const [, type = '', base64 = ''] = LINE.exec(text.trim()) ?? [];
  const blob = Buffer.from(base64, 'base64');
  if (blob.length === 0 || blob.toString('base64') !== base64) return undefined;
  const ordinary = ORDINARY.has(type) ? { type, blob } : insideFido(type, blob);
  if (!ordinary || !isSound(ordinary.type, ordinary.blob)) return undefined;
  return {
    line: `${type} ${base64}`,
    fingerprint: `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`,
  };
}

/** The ordinary key within a FIDO key: `string type, its parts, string application`, and nothing after. */
function insideFido(type: string, blob: Buffer): { type: string; blob: Buffer } | undefined {
  const inner = FIDO.get(type);
  const strings = readStrings(blob);
  if (!inner || strings?.length !== inner.parts + 2 || strings[0]?.toString('latin1') !== type) return undefined;
  // OpenSSH reads the application as a C string.
  const application = strings.at(-1);
  if (!application || application.includes(0)) return undefined;
  return { type: inner.type, blob: writeStrings([Buffer.from(inner.type), ...strings.slice(1, -1)]) };
}

/** Whether sshd would take the blob as a key of that ordinary type. */
function isSound(type: string, blob: Buffer): boolean {
  const [name, first, point] = readStrings(blob) ?? [];
  if (name?.toString('latin1') !== type) return false;
  if (type === 'ssh-ed25519' && first?.length !== 32) return false;
  // OpenSSH takes uncompressed points only (RFC 5656, section 3.1, leaves it the choice).
  if (type.startsWith('ecdsa-') && point?.[0] !== 0x04) return false;
  try {
    const key = sshpk.parseKey(`${type} ${blob.toString('base64')}`, 'ssh');
    // sshpk mends what sshd refuses (negative or padded numbers, bytes left over); a sound key stays what it was.
    if (!key.toBuffer('rfc4253').equals(blob)) return false;
    if (key.type === 'rsa' && (key.size < RSA_BITS.min || key.size > RSA_BITS.max)) return false;
    // OpenSSL checks that a point lies on its curve.
    createPublicKey(key.toString('pkcs8'));
    return true;
  } catch {
    return false;
  }
}

/** The SSH wire format's strings (RFC 4251, section 5) that make up the blob, or undefined when it does not consist of them. */
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
