import { createHmac, timingSafeEqual } from 'node:crypto';

// While you replace the secret, `secrets` has both: the old one and the new one.
export function verify(rawBody, header, secrets) {
  const given = Buffer.from(header ?? '');
  return secrets.some((secret) => {
    const expected = Buffer.from('sha256=' + createHmac('sha256', secret).update(rawBody).digest('hex'));
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
