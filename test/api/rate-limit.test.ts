/** 120 requests per account and clock minute (specification, "Limits"). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECOND } from '../../src/foundation/base/clock.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';

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

test('429 comes before 403 for the plan', async () => {
  using place = scratch();
  await using api = await hosted(place, { clock: setClock(), rateLimit: 1 });
  const { send } = await api.account('free');
  assert.equal((await send('GET', '/directories')).status, 403);
  assert.equal((await send('GET', '/directories')).status, 429);
});
