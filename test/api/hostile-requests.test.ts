/** A fuzz over every endpoint; `npm run torture -- requests` sends 20,000 (`test/torture/requests.ts`). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted } from '../support/hosted.ts';
import { rounds } from '../support/long.ts';
import { scratch } from '../support/scratch.ts';
import { fuzz } from './fuzz/run.ts';

const CASES = rounds(1000, 8000);

test(`${CASES} requests, valid to absurd: no 5xx, no body but the documented shapes, none slow`, async () => {
  using place = scratch();
  await using api = await hosted(place, { rateLimit: 1e9 });
  const { statuses } = await fuzz(api, CASES);
  // The fuzz is useless if it does not reach the rules behind the refusals.
  for (const status of [200, 201, 204, 400, 401, 403, 404, 405, 413, 415, 422]) {
    assert.ok((statuses[status] ?? 0) > 0, `no ${status} among ${JSON.stringify(statuses)}`);
  }
  assert.deepEqual(api.errors(), []);
});
