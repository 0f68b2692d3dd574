/** The wall clock is set an hour forth and back: nothing is removed early, nobody is locked out. Retries: test/webhooks/clock. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DAY, SECOND } from '../../src/clock.ts';
import { BerthError } from '../../src/errors.ts';
import { createRateLimit } from '../../src/http/rate-limits.ts';
import { createLog } from '../../src/log.ts';
import { leadMeter } from '../../src/clock-steps.ts';
import { applyRetention } from '../../src/uploads/retention.ts';
import { movedClock } from '../support/moved-clock.ts';
import { setClock } from '../support/set-clock.ts';
import { crashPlace } from './crash-place.ts';

const HOUR = 3600 * SECOND;

test('set forward, the clock makes no file old enough for retention, and the truth does when it is set back', async () => {
  await using place = await crashPlace();
  const { db } = place.database;
  const clock = movedClock();
  const row = await place.directory();
  const files = join(place.paths.jail(row.sftp_username), 'files');
  writeFileSync(join(files, 'report.csv'), 'data');
  await place.record(row);
  await db.updateTable('directories').set({ retention_days: 7 }).execute();
  await db
    .updateTable('files')
    .set({ uploaded_at: clock.now() - 7 * DAY + HOUR / 2 })
    .execute();
  const removed: string[] = [];
  const lead = leadMeter(clock, () => performance.now());
  const check = (): Promise<void> =>
    applyRetention(
      {
        reads: place.database.reads,
        clock,
        log: createLog('silent'),
        filesRoot: () => files,
        ledger: {
          remove: (_place, path) => removed.push(path),
          touch: () => assert.fail('the file is the one of the row'),
        },
        lead,
        isHeld: async () => false,
        drained: async () => undefined,
      },
      new AbortController().signal,
    );
  for (const offset of [HOUR, -HOUR, HOUR, 0]) {
    clock.offset = offset;
    await check();
    assert.ok(existsSync(join(files, 'report.csv')), `removed with the clock ${offset / HOUR} h ahead`);
  }
  await db
    .updateTable('files')
    .set({ uploaded_at: clock.now() - 7 * DAY - HOUR / 2 })
    .execute();
  await check();
  assert.equal(existsSync(join(files, 'report.csv')), false);
  assert.deepEqual(removed, ['report.csv']);
});

test('a clock that stays where it was set is believed after a day', () => {
  const clock = setClock();
  let steady = 0;
  const lead = leadMeter(clock, () => steady);
  const pass = (hours: number): void => {
    clock.advance(hours * HOUR);
    steady += hours * 3_600_000;
  };
  clock.advance(HOUR);
  assert.equal(Math.round(lead() / HOUR), 1);
  pass(23);
  assert.equal(Math.round(lead() / HOUR), 1);
  pass(2);
  assert.equal(lead(), 0);
});

test('the rate limit locks nobody out, whichever way the clock is set', () => {
  const clock = setClock();
  const limit = createRateLimit({ limit: 2, clock });
  const spend = (): void => {
    limit.take('account');
    limit.take('account');
    assert.throws(() => limit.take('account'), BerthError);
  };
  spend();
  for (const by of [HOUR, -HOUR, -HOUR, HOUR]) {
    clock.advance(by);
    spend();
  }
  clock.advance(60 * SECOND);
  spend();
});
