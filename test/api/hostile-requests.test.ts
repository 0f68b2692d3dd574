/** A fuzz over every endpoint; `npm run torture -- requests` sends 20,000 (`test/torture/requests.ts`). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hosted } from '../support/hosted.ts';
import { rounds } from '../support/long.ts';
import { scratch } from '../support/scratch.ts';
import { fuzz } from './fuzz/run.ts';

const CASES = rounds(1000, 8000);
/** At most: chance decides when the rarest answer comes. */
const TURNS = 8;
/** The fuzz is useless if it does not reach the rules behind the refusals. */
const REACHED = [200, 201, 204, 400, 401, 403, 404, 405, 413, 415, 422];

test(`${CASES} requests or more, valid to absurd: no 5xx, no body but the documented shapes, none slow`, async () => {
  using place = scratch();
  await using api = await hosted(place, { rateLimit: 1e9 });
  const seen = new Set<number>();
  const missing = (): number[] => REACHED.filter((status) => !seen.has(status));
  for (let turn = 0; turn === 0 || (missing().length > 0 && turn < TURNS); turn += 1) {
    const { statuses } = await fuzz(api, CASES);
    for (const status of Object.keys(statuses)) seen.add(Number(status));
  }
  assert.deepEqual(missing(), []);
  assert.deepEqual(api.errors(), []);
});
