/** The bytes that are signed and sent, and their signature (specification, "Body" and "Delivery"). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { enqueue, payload } from '../../src/deliveries/webhooks/outbox.ts';
import { sign, signatureHeader, standardKey, verify } from '../../src/deliveries/webhooks/signature.ts';
import { generateWebhookSecret } from '../../src/rules/directories/identity.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { directory, outboxPlace } from './outbox-place.ts';

const FILE = { filename: 'in/orders.csv', sizeBytes: 12, uploadedAt: 1_795_207_800_123_456 };

test('the body has the fields of the specification in its order', () => {
  const id = '7f0c2f3e-9a1b-4c5d-8e6f-001122334455';
  const body = payload({ directory: { ...directory('https://example.com'), id }, ...FILE });
  assert.equal(
    body.toString(),
    '{"event":"file.uploaded","directory_id":"7f0c2f3e-9a1b-4c5d-8e6f-001122334455","external_id":"order \\"42\\"",' +
      '"filename":"in/orders.csv","size_bytes":12,"uploaded_at":"2026-11-20T20:50:00.123456Z","directory":"orders"}',
  );
});

test('a directory without external id sends null, and a name that is not UTF-8 its replacement', () => {
  const body = payload({
    directory: { ...directory('https://example.com'), external_id: null },
    ...FILE,
    filename: 'caf\u{fffd}\n"x"',
  });
  const parsed: unknown = JSON.parse(body.toString());
  assert.partialDeepStrictEqual(parsed, { external_id: null, filename: 'caf\u{fffd}\n"x"' });
});

test('the signature is the lowercase hex HMAC-SHA256 of the raw body', () => {
  // RFC 4231, test case 2.
  const body = Buffer.from('what do ya want for nothing?');
  const hex = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843';
  assert.equal(sign(body, 'Jefe'), hex);
  assert.equal(signatureHeader(hex), `sha256=${hex}`);
  assert.ok(verify(body, 'Jefe', `sha256=${hex}`));
  assert.ok(!verify(body, 'jefe', `sha256=${hex}`));
  assert.ok(!verify(body, 'Jefe', hex));
  assert.ok(!verify(Buffer.concat([body, Buffer.from(' ')]), 'Jefe', `sha256=${hex}`));
});

test('a directory without a URL gets no delivery, and many events go in with one call', async () => {
  await using place = await outboxPlace();
  const event = { directory: directory('https://example.com/hook'), uploadId: null, ...FILE };
  await place.database.db.transaction().execute(async (tx) => {
    await enqueue(tx, { ...event, directory: directory(null) });
    await enqueue(tx, ...Array.from({ length: 450 }, () => event));
  });
  const rows = await place.database.db.selectFrom('deliveries').selectAll().execute();
  assert.equal(rows.length, 450);
  assert.deepEqual([...new Set(rows.map((row) => row.destination))], ['account-1 https://example.com']);
  assert.ok(rows.every((row) => row.state === 'queued' && row.attempts === 0));
});

// The headers of Standard Webhooks, verified by its own library as docs/webhooks.md says.

/** One webhook of a directory with these secrets. */
async function received(webhook_secret: string, next_webhook_secret: string | null = null): Promise<Received> {
  await using place = await outboxPlace();
  await using target = await receiver();
  const dispatcher = place.start();
  const event = await place.event(target.url, { filename: 'grün/€.csv' });
  const { id } = directory(target.url);
  await place.database.db
    .updateTable('directories')
    .set({ webhook_secret, next_webhook_secret })
    .where('id', '=', id)
    .execute();
  await place.put(target.url, event);
  dispatcher.wake();
  return await target.next();
}

function isVerified(by: Webhook, { body, headers }: Received): boolean {
  try {
    by.verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
}

/** With a `-` and a `_`, as two thirds of the earlier ones have. */
const OLD = 'iKh2-bq1Zx0pT_9dLmE4fGw7yUc5RsVn';

test('a webhook is verified with a new secret as it is, and with no other', async () => {
  const secret = generateWebhookSecret();
  assert.match(secret, /^[A-Za-z0-9+/]{32}$/);
  const request = await received(secret);
  assert.ok(isVerified(new Webhook(secret), request));
  assert.ok(isVerified(new Webhook(`whsec_${secret}`), request));
  assert.ok(!isVerified(new Webhook(generateWebhookSecret()), request));
  assert.ok(!isVerified(new Webhook(secret), { ...request, body: Buffer.from('{}') }));
  const late = { ...request.headers, 'webhook-timestamp': '1795212999' };
  assert.ok(!isVerified(new Webhook(secret), { ...request, headers: late }));
  assert.ok(verify(request.body, secret, String(request.headers['x-service-signature'])));
});

test('while two secrets are valid a receiver may have either; our own header has the one in use', async () => {
  const [now, next] = [generateWebhookSecret(), generateWebhookSecret()];
  const request = await received(now, next);
  assert.match(String(request.headers['webhook-signature']), /^v1,\S+ v1,\S+$/);
  for (const secret of [now, next]) assert.ok(isVerified(new Webhook(secret), request));
  const own = String(request.headers['x-service-signature']);
  assert.ok(verify(request.body, now, own) && !verify(request.body, next, own));
});

test('an old secret is refused by the library as it is, and verified with its alphabet changed', async () => {
  const request = await received(OLD);
  assert.throws(() => new Webhook(OLD));
  const translated = OLD.replaceAll('-', '+').replaceAll('_', '/');
  assert.ok(isVerified(new Webhook(translated), request));
  assert.ok(verify(request.body, OLD, String(request.headers['x-service-signature'])));
});

test('a secret that is not base64 is used as it is', async () => {
  for (const secret of ['correct-horse-battery-staple', 'seventeenletters1', 'größer als klein', 'whsec_of my own!']) {
    const request = await received(secret);
    assert.ok(isVerified(new Webhook(Buffer.from(secret), { format: 'raw' }), request), secret);
    assert.ok(verify(request.body, secret, String(request.headers['x-service-signature'])));
  }
});

test('the library and berth read the same bytes from base64, padded or not, with whsec_ or without', async () => {
  for (const secret of ['c2VjcmV0IHNlY3JldCBz', 'c2VjcmV0IHNlY3JldA==', 'c2VjcmV0IHNlY3JldA', 'correcthorsebattery']) {
    assert.ok(isVerified(new Webhook(secret), await received(secret)), secret);
    assert.ok(isVerified(new Webhook(secret), await received(`whsec_${secret}`)), secret);
  }
  assert.deepEqual(standardKey('c2VjcmV0IHNlY3JldA=='), Buffer.from('secret secret'));
});
