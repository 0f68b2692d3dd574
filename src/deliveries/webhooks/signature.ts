/**
 * Signs webhooks: with the specification's `x-service-signature` ("Delivery"), and with the headers of Standard
 * Webhooks, which its libraries verify (docs/webhooks.md).
 */
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';

/** The signed values, and the secrets. */
export interface Signed {
  readonly id: string;
  readonly body: Buffer;
  readonly webhook_secret: string;
  /** The secret that follows. Until it is active, `webhook-signature` carries both. */
  readonly next_webhook_secret: string | null;
}

/** Lowercase hex HMAC-SHA256 of the exact body, keyed with the directory's secret as it is shown in the API. */
export function sign(body: Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

/** The value of the `x-service-signature` header. */
export function signatureHeader(signature: string): string {
  return `sha256=${signature}`;
}

/** @param at the wall clock at the attempt. */
export function signatureHeaders(
  { id, body, webhook_secret, next_webhook_secret }: Signed,
  at: Micros,
): Record<string, string> {
  const timestamp = String(Math.floor(at / SECOND));
  const secrets = next_webhook_secret === null ? [webhook_secret] : [webhook_secret, next_webhook_secret];
  const standard = secrets.map((secret) => {
    const hmac = createHmac('sha256', createSecretKey(standardKey(secret)))
      .update(`${id}.${timestamp}.`)
      .update(body);
    return `v1,${hmac.digest('base64')}`;
  });
  return {
    'x-service-signature': signatureHeader(sign(body, webhook_secret)),
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': standard.join(' '),
  };
}

/** A secret of an older version, in another alphabet: 24 bytes. */
const OLD_SECRET = /^[\w-]{32}$/;
const BASE64 = /^[A-Za-z\d+/]+={0,2}$/;

/**
 * The key bytes for `webhook-signature`. As in the libraries, a `whsec_` prefix is dropped and base64 is decoded. Any
 * other text stands for its own bytes in UTF-8.
 */
export function standardKey(secret: string): Buffer {
  const text = secret.replace(/^whsec_/, '');
  // No bytes are encoded in 4n + 1 characters.
  const isBase64 = (BASE64.test(text) || OLD_SECRET.test(text)) && text.replace(/=+$/, '').length % 4 !== 1;
  // Node decodes either alphabet.
  return isBase64 ? Buffer.from(text, 'base64') : Buffer.from(secret);
}

/** Whether `header` is the signature of this body with this secret. Compares in constant time. */
export function verify(body: Buffer, secret: string, header: string): boolean {
  const expected = Buffer.from(signatureHeader(sign(body, secret)));
  const given = Buffer.from(header);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
