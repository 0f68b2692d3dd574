/** The webhook's signature (specification, "Delivery"). */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Lowercase hex HMAC-SHA256 of the exact body, keyed with the directory's secret as it is shown in the API. */
export function sign(body: Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

/** The value of the `x-service-signature` header. */
export function signatureHeader(signature: string): string {
  return `sha256=${signature}`;
}

/** Whether `header` is what a webhook with this body and secret carries; compared in constant time. */
export function verify(body: Buffer, secret: string, header: string): boolean {
  const expected = Buffer.from(signatureHeader(sign(body, secret)));
  const given = Buffer.from(header);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
