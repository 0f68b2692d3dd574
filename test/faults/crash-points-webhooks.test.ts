/**
 * The process dies right after each durable step of replaying deliveries and of replacing a webhook secret. The next start
 * sends each replay once, and a secret is the old one or the new one, never none.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { deliveryFor } from '../../src/deliveries/webhooks/outbox.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { type CrashPlace, crashPlace } from './crash-place.ts';

/** Deliveries that have failed: more than two batches. */
const FAILED = 120;

async function fail({ database }: CrashPlace, directory: DirectoryRow, url: string, count: number): Promise<void> {
  const clock = systemClock();
  await database.db.transaction().execute(async (tx) => {
    for (let i = 0; i < count; i += 1) {
      const at = clock.now();
      const event = { directory, uploadId: randomUUID(), filename: `f${i}`, sizeBytes: i, uploadedAt: at };
      const failed = { state: 'failed' as const, attempts: 4, due_at: null, finished_at: at };
      await tx
        .insertInto('deliveries')
        .values({ ...deliveryFor(event, url), ...failed })
        .execute();
    }
  });
}

async function deliveriesOf({ database: { db } }: CrashPlace, directory: DirectoryRow | undefined) {
  const rows = await db
    .selectFrom('deliveries')
    .selectAll()
    .where('directory_id', '=', directory?.id ?? '')
    .execute();
  const isOld = ({ state }: (typeof rows)[number]): boolean => state === 'failed';
  return { old: rows.filter(isOld), replays: rows.filter((row) => !isOld(row)) };
}

const about = (requests: readonly Received[], directory: DirectoryRow | undefined): Received[] =>
  requests.filter(({ body }) => body.toString().includes(directory?.id ?? 'none'));

test('a replay of all that failed, cut off after any step: each is sent once', async (t) => {
  await using hook = await receiver({ eachOnce: true });
  await using place = await crashPlace(hook.url);
  const { db } = place.database;
  const deaths = await place.deaths('replay failed', {
    together: 1,
    before: (directory) => fail(place, directory, hook.url, FAILED),
  });
  assert.deepEqual(
    deaths.map(({ last }) => last),
    [
      'commit: update deliveries, insert audit',
      ...Array.from({ length: 3 }, () => 'commit: insert deliveries, update deliveries'),
    ],
  );
  const isDone = async (): Promise<boolean> =>
    (await db.selectFrom('deliveries').select('id').where('replay_at', 'is not', null).limit(1).execute()).length === 0;
  await place.nextStart(isDone);
  for (const [index, { step, directory }] of deaths.entries()) {
    await t.test(`after step ${step}: ${FAILED} replays, each of another delivery`, async () => {
      const { old, replays } = await deliveriesOf(place, directory);
      assert.deepEqual([old.length, replays.length], [FAILED, FAILED]);
      assert.deepEqual(new Set(old.map(({ replayed_as }) => replayed_as)), new Set(replays.map(({ id }) => id)));
      assert.ok(replays.every(({ state }) => state === 'delivered'));
      // The process that died had added this many; the next start sends the others.
      const added = Math.min(FAILED, 50 * index);
      const sent = about(hook.requests, directory).map(({ body }) => body.toString());
      assert.deepEqual([sent.length, new Set(sent).size], [FAILED - added, FAILED - added]);
    });
  }
});

test('a replay of one is one step: it is there, with its audit, and the next start sends it', async () => {
  await using hook = await receiver({ eachOnce: true });
  await using place = await crashPlace(hook.url);
  const deaths = await place.deaths('replay one', {
    together: 1,
    before: (directory) => fail(place, directory, hook.url, 1),
  });
  assert.deepEqual(
    deaths.map(({ last }) => last),
    ['commit: insert deliveries, update deliveries, insert audit'],
  );
  await place.nextStart();
  const { old, replays } = await deliveriesOf(place, deaths[0]?.directory);
  assert.deepEqual([replays.length, replays[0]?.state], [1, 'delivered']);
  assert.equal(old[0]?.replayed_as, replays[0]?.id);
  assert.equal(about(hook.requests, deaths[0]?.directory).length, 1);
});

test('a new webhook secret, cut off after any step: the old one is in use, or the new one alone', async () => {
  await using place = await crashPlace();
  const key = 'a-new-secret-of-my-own';
  const deaths = await place.deaths('webhook secret', { key, together: 1 });
  const states: unknown[] = [];
  for (const { last, directory } of deaths) {
    assert.equal(last, 'commit: update directories, insert audit');
    const row = await place.row(directory?.id ?? '');
    const isOld = row?.webhook_secret === directory?.webhook_secret;
    states.push([isOld ? 'old' : row?.webhook_secret, row?.next_webhook_secret]);
  }
  assert.deepEqual(states, [
    ['old', key],
    [key, null],
  ]);
});
