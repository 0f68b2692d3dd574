/**
 * The process dies right after each durable step of recording an upload, delivering its webhook and removing what is too
 * old. The next start loses nothing, and sends nothing more often than it must.
 */
import assert from 'node:assert/strict';
import { hash, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { receiver } from '../support/receiver.ts';
import { crashPlace, type CrashPlace } from './crash-place.ts';

function fileOf(place: CrashPlace, { sftp_username }: DirectoryRow): string {
  return join(place.paths.jail(sftp_username), 'files', 'report.csv');
}

async function stateOf({ database: { db } }: CrashPlace, { id }: DirectoryRow) {
  const rows = await db.selectFrom('files').selectAll().where('directory_id', '=', id).execute();
  const deliveries = await db.selectFrom('deliveries').selectAll().where('directory_id', '=', id).execute();
  const directory = await db.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  return { rows, deliveries, storage: directory.storage_bytes };
}

test('record and enqueue are one step: the upload and its webhook are both there, once', async () => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const deaths = await place.deaths('record', {
    together: 1,
    before: async (directory) => writeFileSync(fileOf(place, directory), 'data'),
  });
  assert.equal(deaths.length, 1, 'it is one step');
  const { last, directory } = deaths[0] ?? {};
  assert.match(last ?? '', /^commit: .*insert files.*insert deliveries/);
  await place.nextStart();
  assert.ok(directory);
  const { rows, deliveries, storage } = await stateOf(place, directory);
  assert.deepEqual([rows.length, deliveries.length, storage], [1, 1, 4]);
  const sent = hook.requests.filter(({ body }) => body.toString().includes(directory.id));
  assert.equal(sent.length, 1);
});

test('a delivery, cut off after its claim, the answer or its finish: delivered, and repeated only when it must', async (t) => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const deaths = await place.deaths('deliver', {
    together: 1,
    before: async (directory) => place.enqueue(directory),
  });
  await place.nextStart();
  const expected = [
    {
      last: /^commit: .*update deliveries.*insert attempts/,
      requests: 1,
      attempts: 2,
      name: 'after the claim: sent by the next start',
    },
    {
      last: /^the receiver has answered/,
      requests: 2,
      attempts: 2,
      name: 'after the answer: sent twice, under one id',
    },
    { last: /^commit: .*update deliveries/, requests: 1, attempts: 1, name: 'after the finish: sent once' },
  ];
  assert.equal(deaths.length, expected.length, deaths.map(({ last }) => last).join('; '));
  for (const [index, { last, requests, attempts, name }] of expected.entries()) {
    await t.test(name, async () => {
      const { last: step = '', directory } = deaths[index] ?? {};
      assert.match(step, last);
      assert.ok(directory);
      const { deliveries } = await stateOf(place, directory);
      assert.deepEqual(
        deliveries.map((row) => [row.state, row.attempts]),
        [['delivered', attempts]],
      );
      const sent = hook.requests.filter(({ body }) => body.toString().includes(directory.id));
      assert.equal(sent.length, requests);
      assert.equal(new Set(sent.map(({ headers }) => headers['webhook-id'])).size, 1);
    });
  }
});

test('retention, cut off after it removed a file or its row: both are gone, and what is young stays', async (t) => {
  await using place = await crashPlace();
  const { db } = place.database;
  const deaths = await place.deaths('retention', {
    together: 1,
    async before(directory) {
      writeFileSync(fileOf(place, directory), 'old');
      await place.record(directory);
      writeFileSync(join(fileOf(place, directory), '..', 'young.csv'), 'young');
      await db
        .updateTable('files')
        .set({ uploaded_at: systemClock().now() - 9 * DAY })
        .where('directory_id', '=', directory.id)
        .execute();
      await db.updateTable('directories').set({ retention_days: 7 }).where('id', '=', directory.id).execute();
    },
    // The next process is about the next directory.
    after: async ({ id }) =>
      void (await db.updateTable('directories').set({ retention_days: 0 }).where('id', '=', id).execute()),
  });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['unlink', 'commit:'],
  );
  // A file that has gone is waited for, in case that it was moved.
  const isGone = async (): Promise<boolean> => {
    const gone = db.selectFrom('files').select('id').where('path', '=', Buffer.from('report.csv'));
    return (await gone.where('directory_id', '=', deaths[0]?.directory?.id ?? '').execute()).length === 0;
  };
  await place.nextStart(isGone);
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      assert.equal(existsSync(fileOf(place, directory)), false);
      const { rows, storage } = await stateOf(place, directory);
      assert.deepEqual(
        rows.map(({ path }) => path.toString()),
        ['young.csv'],
      );
      assert.equal(storage, 5);
    });
  }
});

/** Files on their way into a directory or out of it. */
const inTransit = ({ paths }: CrashPlace): string[] => readdirSync(paths.transit);

test('a file that the API puts there, cut off anywhere: it is there and no upload, or nothing is', async (t) => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const deaths = await place.deaths('put', { together: 1 });
  const moved = deaths.findLastIndex(({ last }) => last.startsWith('rename'));
  assert.match(deaths[1]?.last ?? '', /^commit: .*insert placements.*insert audit/);
  await place.nextStart();
  assert.deepEqual(inTransit(place), []);
  for (const [index, { last, directory }] of deaths.entries()) {
    await t.test(`after step ${index + 1}, ${last}`, async () => {
      assert.ok(directory);
      const { rows, deliveries, storage } = await stateOf(place, directory);
      const file = join(fileOf(place, directory), '..', 'new/report.csv');
      const isThere = existsSync(file);
      assert.equal(isThere, index >= moved);
      assert.deepEqual(
        rows.map((row) => [row.path.toString(), row.state]),
        isThere ? [['new/report.csv', 'placed']] : [],
      );
      assert.deepEqual([storage, deliveries], [isThere ? 4 : 0, []]);
      const folder = statSync(join(file, '..'), { throwIfNoEntry: false });
      assert.ok(!folder || folder.uid === directory.uid, 'no folder is left that its user cannot use');
    });
  }
  assert.equal(hook.requests.length, 0);
});

test('an upload by link, cut off anywhere: it is there and announced once, or nothing is there and the link still works', async (t) => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const { db } = place.database;
  const deaths = await place.deaths('upload by link', {
    together: 1,
    async before({ id }) {
      const link = { id: randomUUID(), directory_id: id, hash: hash('sha256', id.replaceAll('-', ''), 'hex') };
      await db
        .insertInto('links')
        .values({
          ...link,
          kind: 'upload',
          path: Buffer.from('new/report.csv'),
          is_folder: 0,
          max_bytes: 4,
          once: 1,
          expires_at: systemClock().now() + DAY,
          inserted_at: systemClock().now(),
          created_by: null,
          used_at: null,
        })
        .execute();
    },
  });
  const moved = deaths.findLastIndex(({ last }) => last.startsWith('link'));
  const steps = deaths.map(({ last }) => last).join('; ');
  assert.match(steps, /commit: .*update links.*insert placements/);
  assert.ok(moved > 0, steps);
  await place.nextStart();
  assert.deepEqual(inTransit(place), []);
  for (const [index, { last, directory }] of deaths.entries()) {
    await t.test(`after step ${index + 1}, ${last}`, async () => {
      assert.ok(directory);
      const { rows, deliveries, storage } = await stateOf(place, directory);
      const isThere = existsSync(join(fileOf(place, directory), '..', 'new/report.csv'));
      assert.equal(isThere, index >= moved);
      assert.deepEqual(
        rows.map((row) => [row.path.toString(), row.state]),
        isThere ? [['new/report.csv', 'uploaded']] : [],
      );
      assert.deepEqual([storage, deliveries.length], isThere ? [4, 1] : [0, 0]);
      const own = directory.id;
      const links = await db.selectFrom('links').select('used_at').where('directory_id', '=', own).execute();
      assert.deepEqual(
        links.map(({ used_at }) => used_at !== null),
        [isThere],
      );
      const history = await db
        .selectFrom('transfers')
        .select(['event', 'via', 'address'])
        .where('directory_id', '=', own)
        .execute();
      assert.deepEqual(history, isThere ? [{ event: 'uploaded', via: 'link', address: '192.0.2.7' }] : []);
      const sent = hook.requests.filter(({ body }) => body.toString().includes(own));
      assert.equal(sent.length, isThere ? 1 : 0);
    });
  }
});

test('an upload that the API removes, cut off anywhere: it is there as before, or all of it has gone', async (t) => {
  await using place = await crashPlace();
  const deaths = await place.deaths('remove upload', {
    together: 1,
    async before(directory) {
      writeFileSync(fileOf(place, directory), 'data');
      await place.record(directory);
    },
  });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['rename', 'commit:', 'unlink'],
  );
  const before = await Promise.all(deaths.map(async ({ directory }) => directory && stateOf(place, directory)));
  await place.nextStart();
  assert.deepEqual(inTransit(place), []);
  for (const [index, { last, directory }] of deaths.entries()) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const { rows, deliveries, storage } = await stateOf(place, directory);
      const isThere = index === 0;
      assert.equal(existsSync(fileOf(place, directory)), isThere);
      // Taking the file away and bringing it back changes its ctime.
      const withoutCtime = (of = rows) => of.map((row) => ({ ...row, ctime: undefined }));
      assert.deepEqual(withoutCtime(), withoutCtime(before[index]?.rows));
      assert.deepEqual([rows.length, storage, deliveries], isThere ? [1, 4, []] : [0, 0, []]);
    });
  }
});

test('an upload that the API removes while its session may ask for it, cut off anywhere: it is removed, and then leaves the disk', async (t) => {
  await using place = await crashPlace();
  const before = async (directory: DirectoryRow): Promise<void> => {
    writeFileSync(fileOf(place, directory), 'data');
    await place.record(directory);
  };
  const removals = await place.deaths('remove for a session', { together: 1, before });
  assert.deepEqual(
    removals.map(({ last }) => /^commit: .*update files/.test(last)),
    [true],
    'it is one step',
  );
  const ends = await place.deaths('end removal', { together: 1, before });
  assert.deepEqual(
    ends.map(({ last }) => last.split(' ')[0]),
    ['rename', 'commit:', 'unlink'],
  );
  const deaths = [...removals, ...ends];
  for (const { directory } of deaths) {
    assert.ok(directory);
    assert.equal((await stateOf(place, directory)).storage, 0);
  }
  const ids = deaths.map(({ directory }) => directory?.id ?? '');
  const { db } = place.database;
  await place.nextStart(async () => {
    const left = await db.selectFrom('files').select('id').where('directory_id', 'in', ids).execute();
    return left.length === 0;
  });
  assert.deepEqual(inTransit(place), []);
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      assert.equal(existsSync(fileOf(place, directory)), false);
      assert.equal((await stateOf(place, directory)).storage, 0);
      const events = await db
        .selectFrom('transfers')
        .select('event')
        .where('directory_id', '=', directory.id)
        .where('event', 'in', ['uploaded', 'removed'])
        .orderBy('id')
        .execute();
      assert.deepEqual(
        events.map(({ event }) => event),
        ['uploaded', 'removed'],
      );
    });
  }
});

test('a partial file that is announced, cut off: it is announced, once, with its webhook, or as it was', async () => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const deaths = await place.deaths('announce partial', { together: 1, before: partial(place) });
  assert.deepEqual(
    deaths.map(({ last }) => /^commit: .*update files.*insert deliveries/.test(last)),
    [true],
    deaths.map(({ last }) => last).join('; '),
  );
  const { directory } = deaths[0] ?? {};
  assert.ok(directory);
  await place.nextStart();
  const { rows, deliveries, storage } = await stateOf(place, directory);
  assert.deepEqual([rows.map(({ state }) => state), deliveries.length, storage], [['uploaded'], 1, 4]);
  const sent = hook.requests.filter(({ body }) => body.toString().includes(directory.id));
  assert.equal(sent.length, 1);
});

test('a partial file that is removed, cut off: it is as it was, or file and row are gone', async (t) => {
  await using place = await crashPlace();
  const deaths = await place.deaths('remove partial', { together: 1, before: partial(place) });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['rename', 'commit:', 'unlink'],
  );
  await place.nextStart();
  assert.deepEqual(inTransit(place), []);
  for (const [index, { last, directory }] of deaths.entries()) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const { rows, deliveries, storage } = await stateOf(place, directory);
      const isThere = index === 0;
      assert.equal(existsSync(fileOf(place, directory)), isThere);
      const states = rows.map(({ state }) => state);
      assert.deepEqual([states, storage, deliveries], isThere ? [['partial'], 4, []] : [[], 0, []]);
    });
  }
});

/** `report.csv` is partial. */
function partial(place: CrashPlace) {
  return async (directory: DirectoryRow): Promise<void> => {
    writeFileSync(fileOf(place, directory), 'data');
    await place.record(directory);
    const { db } = place.database;
    await db.deleteFrom('deliveries').where('directory_id', '=', directory.id).execute();
    await db.updateTable('files').set({ state: 'partial' }).where('directory_id', '=', directory.id).execute();
  };
}
