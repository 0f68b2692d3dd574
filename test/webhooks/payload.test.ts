/** The bytes that are signed and sent, and their signature (specification, "Body" and "Delivery"). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enqueue, payload } from '../../src/deliveries/webhooks/outbox.ts';
import { sign, signatureHeader, verify } from '../../src/deliveries/webhooks/signature.ts';
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
