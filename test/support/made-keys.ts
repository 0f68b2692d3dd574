/** Public keys in numbers: `ssh-keygen` would take a process each. */
import { createHash, generateKeyPairSync } from 'node:crypto';

export interface MadeKey {
  /** Type and base64. */
  readonly line: string;
  readonly fingerprint: string;
}

/** Ed25519 keys (RFC 8709, section 4). At least three. */
export function madeKeys(count: number): [MadeKey, MadeKey, MadeKey, ...MadeKey[]] {
  return Array.from({ length: Math.max(count, 3) }, made) as [MadeKey, MadeKey, MadeKey, ...MadeKey[]];
}

function made(): MadeKey {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const strings = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')];
  const blob = Buffer.concat(strings.flatMap((string) => [Buffer.from([0, 0, 0, string.length]), string]));
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  return { line: `ssh-ed25519 ${blob.toString('base64')}`, fingerprint: `SHA256:${digest}` };
}
