/** Limits per account (specification, "Limits"), and for requests without a valid key per client address, which cost no account anything. */
import { test } from 'node:test';
import { SECOND } from '../../src/foundation/base/clock.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { generateKey } from '../../src/rules/api-keys/authenticate.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';

import assert from 'node:assert/strict';

test('429: from the 121st request of an account until the clock minute is over, without headers', async () => {
  using place = scratch();
  const clock = setClock();
  await using api = await hosted(place, { clock, rateLimit: 120 });
  const secondKey = await api.key(api.tenant.accountId, 'member');
  const other = await api.account('pro');
  clock.advance(50 * SECOND);
  for (let i = 0; i < 60; i += 1) {
    assert.equal((await api.send('GET', '/directories')).status, 200);
    assert.equal((await secondKey('GET', '/directories/unknown')).status, 404);
  }
  for (const send of [api.send, secondKey]) {
    const answer = await send('GET', '/directories');
    assert.deepEqual([answer.status, answer.json], [429, { error: 'Rate limit exceeded' }]);
    const shown = Object.keys(answer.headers).filter((name) => /rate|retry/i.test(name));
    assert.deepEqual(shown, []);
  }
  assert.equal((await other.send('GET', '/directories')).status, 200, 'other accounts have their own count');
  assert.equal((await api.send('GET', '/directories', { authorization: null })).status, 401, 'who it is comes first');

  clock.advance(9 * SECOND);
  assert.equal((await api.send('GET', '/directories')).status, 429, 'the minute is not over');
  clock.advance(SECOND);
  assert.equal((await api.send('GET', '/directories')).status, 200, 'a new minute');
  for (let i = 0; i < 119; i += 1) await api.send('GET', '/directories');
  assert.equal((await api.send('GET', '/directories')).status, 429);
  clock.advance(-3600 * SECOND);
  assert.equal((await api.send('GET', '/directories')).status, 200, 'a clock set back locks nobody out');
});

test('429: too many requests without a key from an address, while its account continues; 401 stays 401', async () => {
  using place = scratch();
  let now = 0;
  const clock = setClock(); // with the real one, a minute could end among the account's requests
  await using api = await hosted(place, { clock, rateLimit: 50, unauthenticated: { limit: 10, clock: () => now } });
  const wrong = [
    { authorization: null },
    { authorization: 'Bearer nonsense' },
    { authorization: `Bearer ${generateKey('live')}` },
  ];
  for (let i = 0; i < 200; i += 1) {
    const answer = await api.send('GET', i % 2 ? '/directories' : '/directories/x', wrong[i % wrong.length]);
    assert.equal(answer.status, 401, 'who it is comes first, however often it is asked');
  }
  const statuses: number[] = [];
  for (let i = 0; i < 200; i += 1) {
    const answer = await api.send('GET', ['/openapi.json', '/unknown', '//docs'][i % 3] ?? '', wrong[i % wrong.length]);
    statuses.push(answer.status);
    if (answer.status === 429) assert.deepEqual(answer.json, { error: 'Rate limit exceeded' });
  }
  assert.deepEqual(statuses, [
    ...Array.from({ length: 10 }, (_, i) => (i % 3 === 1 ? 404 : 200)),
    ...Array<number>(190).fill(429),
  ]);
  for (const [method, path] of [
    ['GET', '/unknown'],
    ['PUT', '/directories'],
    ['OPTIONS', '/directories'],
  ] as const) {
    assert.equal((await api.send(method, path, { authorization: null })).status, 429, `${method} ${path}`);
  }
  assert.equal((await api.send('GET', '//healthz', { authorization: null })).status, 200, 'health has no limit');
  for (let i = 0; i < 50; i += 1) {
    assert.equal((await api.send('GET', '/directories')).status, 200, 'the account has all of its 50');
  }
  assert.equal((await api.send('GET', '/directories')).status, 429);
  now += 6000;
  assert.equal((await api.send('GET', '/openapi.json', { authorization: null })).status, 200, 'one more in 6 s');
  assert.equal((await api.send('GET', '/openapi.json', { authorization: null })).status, 429);
});

test('unknown paths with a key count for the account, not for the address', async () => {
  using place = scratch();
  await using api = await hosted(place, {
    clock: setClock(),
    rateLimit: 5,
    unauthenticated: { limit: 5, clock: () => 0 },
  });
  for (let i = 0; i < 5; i += 1) assert.equal((await api.send('GET', '/unknown')).status, 404);
  assert.equal((await api.send('GET', '/unknown')).status, 429);
  for (let i = 0; i < 5; i += 1) {
    assert.equal((await api.send('GET', '/unknown', { authorization: null })).status, 404);
  }
  assert.equal((await api.send('GET', '/unknown', { authorization: null })).status, 429);
});

test('the address is the connection’s, and X-Forwarded-For counts from trusted proxies only', async () => {
  using place = scratch();
  const unauthenticated = { limit: 2, clock: () => 0 };
  const ask = async (api: Awaited<ReturnType<typeof hosted>>, forwarded: string): Promise<number> =>
    (await api.send('GET', '/openapi.json', { authorization: null, headers: { 'x-forwarded-for': forwarded } })).status;
  {
    await using api = await hosted(place, { unauthenticated });
    const statuses = [];
    for (let i = 1; i <= 3; i += 1) statuses.push(await ask(api, `198.51.100.${i}`));
    assert.deepEqual(statuses, [200, 200, 429], 'anybody can send the header');
  }
  using other = scratch();
  await using api = await hosted(other, { unauthenticated, trustedProxies: ['127.0.0.0/8', '192.0.2.0/24'] });
  const cases: [string, number][] = [
    ['198.51.100.1', 200],
    ['203.0.113.5, 198.51.100.1', 200], // what the client itself wrote is left of what the proxy did
    ['203.0.113.6,198.51.100.1, 192.0.2.7', 429], // two trusted hops
    ['198.51.100.2:4711', 200],
    ['2001:db8::1', 200],
    ['[2001:db8::2]:4711', 200],
    ['2001:db8::3', 429],
    ['::ffff:198.51.100.2', 200],
    ['198.51.100.2', 429],
    ['nonsense', 200], // the proxy's own
    ['', 200],
    ['unknown', 429],
  ];
  for (const [forwarded, status] of cases) assert.equal(await ask(api, forwarded), status, forwarded);
});

test('trusted proxies: loopback when a proxy ends TLS, nobody otherwise, and what the operator says', () => {
  const loopback = ['127.0.0.0/8', '::1/128'];
  assert.deepEqual(readConfig({}).trustedProxies, []);
  assert.deepEqual(readConfig({ BERTH_TLS: 'proxy' }).trustedProxies, loopback);
  const named = { BERTH_TRUSTED_PROXIES: '10.0.0.0/8 2001:db8::/32' };
  assert.deepEqual(readConfig(named).trustedProxies, ['10.0.0.0/8', '2001:db8::/32']);
  assert.deepEqual(readConfig({ ...named, BERTH_TLS: 'proxy' }).trustedProxies.slice(0, 2), loopback);
  for (const wrong of ['10.0.0.0', '10.0.0.0/33', '10.0.0/8', 'x/8', '::/129', '10.0.0.0/8/8', '10.0.0.0/']) {
    assert.throws(() => readConfig({ BERTH_TRUSTED_PROXIES: wrong }), /BERTH_TRUSTED_PROXIES must be CIDRs/, wrong);
  }
  assert.equal(readConfig({}).unauthenticatedRateLimit, 60);
  assert.throws(() => readConfig({ BERTH_UNAUTHENTICATED_RATE_LIMIT: '0' }), /must be a whole number above 0/);
});
