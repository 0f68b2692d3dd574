/** The wall clock is set, or is wrong at a start: nothing is removed early, nobody is locked out. Retries: test/webhooks/retries. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Clock, DAY, type Micros, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { createGround } from '../../src/foundation/context.ts';
import { type ClockLead, confirmClock, createClockLead } from '../../src/foundation/db/clock-lead.ts';
import { BerthError } from '../../src/foundation/base/errors.ts';
import { pruneHistory } from '../../src/rules/history/removal.ts';
import { createRateLimit } from '../../src/interfaces/web/rate-limits.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { applyRetention } from '../../src/arrivals/uploads/retention.ts';
import { movedClock } from '../support/moved-clock.ts';
import { setClock } from '../support/set-clock.ts';
import { crashPlace, type CrashPlace } from './crash-place.ts';

const HOUR = 3600 * SECOND;

const HOURS = (micros: number): number => Math.round(micros / HOUR);

/** A directory with 7 days' retention and a file in it, to which retention is applied by that clock. */
async function retaining(place: CrashPlace, clock: Clock) {
  const { db } = place.database;
  const row = await place.directory();
  const files = join(place.paths.jail(row.sftp_username), 'files');
  writeFileSync(join(files, 'report.csv'), 'data');
  await place.record(row);
  await db.updateTable('directories').set({ retention_days: 7 }).execute();
  const removed: string[] = [];
  return {
    removed,
    isThere: (): boolean => existsSync(join(files, 'report.csv')),
    async uploadedAt(at: Micros): Promise<void> {
      await db.updateTable('files').set({ uploaded_at: at }).execute();
    },
    check: (clockLead: ClockLead): Promise<void> =>
      applyRetention(
        {
          database: place.database,
          clock,
          log: createLog('silent'),
          node: place.config.node,
          filesRoot: () => files,
          recorder: {
            removed: (_place, path) => removed.push(path),
            look: () => assert.fail('the file is there, and the one of its row'),
          },
          clockLead,
          mustStay: async () => () => false,
          drained: async () => undefined,
        },
        new AbortController().signal,
      ),
  };
}

/** One run of berth: a machine that is off between two of them has a monotonic clock that starts again. */
function boot({ database }: Pick<CrashPlace, 'database'>, clock: Clock, lines: string[] = []): ClockLead {
  const log = createLog('info', { write: (line) => void lines.push((JSON.parse(line) as { msg: string }).msg) });
  return createClockLead({ database, clock, log });
}

test('set forward, the clock makes no file old enough for retention, and the truth does when it is set back', async () => {
  await using place = await crashPlace();
  const clock = movedClock();
  const { removed, isThere, uploadedAt, check } = await retaining(place, clock);
  await uploadedAt(clock.now() - 7 * DAY + HOUR / 2);
  const clockLead = boot(place, clock);
  await clockLead();
  for (const offset of [HOUR, -HOUR, HOUR, 0]) {
    clock.offset = offset;
    await check(clockLead);
    assert.ok(isThere(), `removed with the clock ${offset / HOUR} h ahead`);
  }
  await uploadedAt(clock.now() - 7 * DAY - HOUR / 2);
  await check(clockLead);
  assert.equal(isThere(), false);
  assert.deepEqual(removed, ['report.csv']);
});

test('a start with a clock that is ahead removes nothing for age, however long it stays so; confirmed, it counts', async () => {
  await using place = await crashPlace();
  const { database } = place;
  const clock = movedClock();
  const { removed, check } = await retaining(place, clock);
  const lines: string[] = [];
  await boot(place, clock)();

  const history = async (clockLead: ClockLead): Promise<number> => {
    await database.db
      .insertInto('transfers')
      .values({ at: systemClock().now(), event: 'uploaded', directory_id: 'd', account_id: 'a', username: 'u' })
      .execute();
    const log = createLog('silent');
    await pruneHistory(
      { ...createGround({ config: place.config, database, clock, log }), clockLead },
      new AbortController().signal,
    );
    return (await database.db.selectFrom('transfers').select('id').execute()).length;
  };
  const began = await history(boot(place, clock));
  for (const years of [10, 10, 0, 10]) {
    clock.offset = years * 365 * DAY;
    const clockLead = boot(place, clock, lines);
    await check(clockLead);
    assert.deepEqual(removed, []);
    await history(clockLead);
    assert.equal(HOURS((await clockLead()).lead), years * 365 * 24);
  }
  assert.equal(await history(boot(place, clock)), began + 5);
  const warning = lines.filter((line) => line.includes('berth clock confirm'));
  assert.deepEqual([lines.length, warning.length], [3, 3], lines.join('; '));

  assert.equal(HOURS(await confirmClock({ database, clock })), 10 * 365 * 24);
  const clockLead = boot(place, clock);
  await check(clockLead);
  assert.deepEqual(removed, ['report.csv']);
  assert.equal(await history(clockLead), 0);
});

test('uploads made while the clock was ahead count from when it is right again, in their order', async () => {
  await using place = await crashPlace();
  const clock = movedClock();
  const { uploadedAt, check } = await retaining(place, clock);
  await boot(place, clock)();
  const times = async (): Promise<Micros[]> =>
    (await place.database.db.selectFrom('files').select('uploaded_at').execute()).map((row) => row.uploaded_at);

  clock.offset = 3650 * DAY;
  const clockLead = boot(place, clock);
  await check(clockLead);
  const at = clock.now();
  await uploadedAt(at);
  await check(clockLead);
  assert.deepEqual(await times(), [at]);

  // Set far back, it says nothing about the future.
  clock.offset = -3650 * DAY;
  await check(clockLead);
  assert.deepEqual(await times(), [at]);

  clock.offset = 0;
  const before = clock.now();
  await check(clockLead);
  const [taken = 0] = await times();
  assert.ok(before <= taken && taken <= clock.now(), String(taken - before));
});

test('a clock that stays where it was set is believed after a day, but not when that is more than a day off', async () => {
  await using place = await crashPlace();
  const clock = setClock();
  let steady = 0;
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const clockLead = createClockLead({ database: place.database, clock, log, monotonic: () => steady });
  const lead = async (): Promise<number> => HOURS((await clockLead()).lead);
  const pass = (hours: number): void => {
    clock.advance(hours * HOUR);
    steady += hours * 3_600_000;
  };
  await lead();
  clock.advance(2 * HOUR);
  assert.equal(await lead(), 2);
  pass(23);
  assert.equal(await lead(), 2);
  pass(2);
  assert.equal(await lead(), 0);
  clock.advance(48 * HOUR);
  assert.equal(await lead(), 48);
  pass(1000);
  assert.equal(await lead(), 48);
  await confirmClock({ database: place.database, clock });
  assert.equal(await lead(), 0);
  assert.equal(lines.length, 4, lines.join(''));
});

test('the time of a restart does not count as a lead of the clock', async () => {
  await using place = await crashPlace();
  const clock = setClock();
  await boot(place, clock)();
  clock.advance(HOUR / 2);
  assert.equal((await boot(place, clock)()).lead, 0);
  clock.advance(5 * HOUR);
  const reading = await boot(place, clock)();
  assert.equal(HOURS(reading.lead), 5);
  assert.equal(HOURS(clock.now() - reading.now), 5);
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
