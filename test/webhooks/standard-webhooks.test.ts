/** The headers of Standard Webhooks, verified by its own library as docs/webhooks.md says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { generateWebhookSecret } from '../../src/rules/directories/identity.ts';
import { standardKey, verify } from '../../src/deliveries/webhooks/signature.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { directory, outboxPlace } from './outbox-place.ts';

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
