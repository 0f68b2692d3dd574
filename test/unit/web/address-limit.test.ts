/** The bucket of each client network: its size, its refill, and what a flood from elsewhere does to it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAddressLimit, type RateLimit } from '../../../src/interfaces/web/rate-limits.ts';
import { clientNetwork } from '../../../src/interfaces/web/client-address.ts';

function taken(bucket: RateLimit, address: string, tries: number): number {
  let count = 0;
  for (let i = 0; i < tries; i += 1) {
    try {
      bucket.take(address);
      count += 1;
    } catch (error) {
      assert.match(String(error), /Rate limit exceeded/);
    }
  }
  return count;
}

test('as many as the limit at once, then one for each part of the minute that has passed', () => {
  for (const limit of [1, 7, 60, 1000]) {
    let now = 5;
    const bucket = createAddressLimit({ limit, clock: () => now });
    assert.equal(taken(bucket, '203.0.113.9', limit + 50), limit);
    now += 60_000 / limit;
    assert.equal(taken(bucket, '203.0.113.9', 50), 1);
    now += 600_000;
    assert.equal(taken(bucket, '203.0.113.9', limit + 50), limit, 'idle time does not add up beyond the limit');
  }
});

test('an IPv6 client has one bucket for all of its /64, whatever the spelling', () => {
  const bucket = createAddressLimit({ limit: 3, clock: () => 0 });
  for (const address of ['2001:db8::1', '2001:db8:0:0:ffff::2', '2001:0DB8:0000::ab:cd']) {
    assert.equal(taken(bucket, address, 1), 1);
  }
  assert.equal(taken(bucket, '2001:db8:0:0:1:2:3:4', 1), 0);
  assert.equal(taken(bucket, '2001:db8:0:1::1', 1), 1, 'the next network has its own');
});

test('networks are counted separately, like addresses', () => {
  const cases = [
    ['198.51.100.7', '198.51.100.7'],
    ['::1', '0:0:0:0::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['1:2:3:4::', '1:2:3:4::/64'],
    ['64:ff9b::198.51.100.7', '64:ff9b:0:0::/64'],
    ['1:2:3::198.51.100.7', '1:2:3:0::/64'],
    ['', ''],
  ] as const;
  for (const [address, network] of cases) assert.equal(clientNetwork(address), network);
});

test('10,000 networks over their limit do not grow the table, free anyone, or lock out an honest one', () => {
  const bucket = createAddressLimit({ limit: 2, clock: () => 0 });
  assert.equal(taken(bucket, '192.0.2.1', 5), 2);
  let refused = 0;
  for (let i = 0; i < 10_000; i += 1) if (taken(bucket, `2001:db8:${i.toString(16)}::1`, 2) < 2) refused += 1;
  assert.equal(taken(bucket, '192.0.2.1', 1), 0, 'nothing was forgotten');
  let honest = 0;
  for (let i = 0; i < 2000; i += 1) honest += taken(bucket, `198.51.${i >> 8}.${i & 255}`, 1);
  // By chance it is one in 2,000; the places are secret, so it is chance.
  assert.ok(honest >= 1980, `${2000 - honest} of 2,000 honest networks were refused`);
  assert.ok(refused < 100);
});
