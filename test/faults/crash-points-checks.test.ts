/**
 * The process dies right after each durable step of a decision about a file in check, or of an operator's about one in the
 * quarantine. The next start finishes it: the file is announced once or in the quarantine, and never both.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { checkSocket, fakeClamd } from '../checks/check-place.ts';
import { receiver } from '../support/receiver.ts';
import { crashPlace, type CrashPlace } from './crash-place.ts';

const fileOf = (place: CrashPlace, { sftp_username }: DirectoryRow): string =>
  join(place.paths.jail(sftp_username), 'files', 'report.csv');

const quarantined = ({ paths }: CrashPlace, { id }: DirectoryRow): string[] => {
  const folder = join(paths.quarantine, id);
  return existsSync(folder) ? readdirSync(folder) : [];
};

/** `report.csv` is in check. */
function inCheck(place: CrashPlace, content: string) {
  return async (directory: DirectoryRow): Promise<void> => {
    writeFileSync(fileOf(place, directory), content);
    await place.record(directory);
    const { db } = place.database;
    for (const table of ['deliveries', 'transfers'] as const)
      await db.deleteFrom(table).where('directory_id', '=', directory.id).execute();
    await db.updateTable('files').set({ state: 'checking' }).where('directory_id', '=', directory.id).execute();
  };
}

async function stateOf(place: CrashPlace, directory: DirectoryRow) {
  const { db } = place.database;
  const own = directory.id;
  const rows = await db.selectFrom('files').select(['id', 'state']).where('directory_id', '=', own).execute();
  const deliveries = await db.selectFrom('deliveries').select('id').where('directory_id', '=', own).execute();
  const rejected = await db.selectFrom('quarantine').select('id').where('directory_id', '=', own).execute();
  const events = await db.selectFrom('transfers').select('event').where('directory_id', '=', own).execute();
  const { storage_bytes: storage } = (await place.row(own)) ?? { storage_bytes: -1 };
  return {
    states: rows.map(({ state }) => state),
    deliveries: deliveries.length,
    rejected: rejected.map(({ id }) => id),
    events: events.map(({ event }) => event),
    storage,
    isThere: existsSync(fileOf(place, directory)),
    kept: quarantined(place, directory),
  };
}

/** Nothing is in check any more. */
const isDecided = (place: CrashPlace) => async (): Promise<boolean> => {
  const { db } = place.database;
  return (await db.selectFrom('files').select('id').where('state', '=', 'checking').execute()).length === 0;
};

test('a file that has passed is announced in one step', async () => {
  await using hook = await receiver();
  const socket = checkSocket();
  await using _clamd = await fakeClamd(socket);
  await using place = await crashPlace(hook.url, { BERTH_CHECK: `clamd:${socket}` });
  const deaths = await place.deaths('pass', { together: 1, before: inCheck(place, 'fine') });
  assert.equal(deaths.length, 1, deaths.map(({ last }) => last).join('; '));
  const { last = '', directory } = deaths[0] ?? {};
  assert.match(last, /^commit: update files, .*insert deliveries/);
  await place.nextStart(isDecided(place));
  assert.ok(directory);
  const { states, deliveries, storage, events } = await stateOf(place, directory);
  assert.deepEqual([states, deliveries, storage, events], [['uploaded'], 1, 4, ['uploaded']]);
  assert.equal(hook.requests.filter(({ body }) => body.toString().includes(directory.id)).length, 1);
});

test('a rejected file, cut off anywhere: it is in the quarantine in the end, and never announced', async (t) => {
  await using hook = await receiver();
  const socket = checkSocket();
  await using _clamd = await fakeClamd(socket);
  await using place = await crashPlace(hook.url, { BERTH_CHECK: `clamd:${socket}` });
  const deaths = await place.deaths('reject', { together: 1, before: inCheck(place, 'bad!') });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['rename', 'commit:', 'mkdir', 'rename'],
    deaths.map(({ last }) => last).join('; '),
  );
  await place.nextStart(isDecided(place));
  assert.deepEqual(readdirSync(place.paths.transit), []);
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const { states, deliveries, rejected, storage, isThere, kept, events } = await stateOf(place, directory);
      assert.deepEqual([states, deliveries, storage, isThere, events], [[], 0, 0, false, ['rejected']]);
      assert.deepEqual([rejected.length, kept], [1, rejected]);
      assert.equal(readFileSync(join(place.paths.quarantine, directory.id, kept[0] ?? ''), 'utf8'), 'bad!');
    });
  }
  assert.equal(hook.requests.length, 0);
});

test('a rejection while the session may ask for the file, cut off anywhere: the file ends in the quarantine', async (t) => {
  await using hook = await receiver();
  const socket = checkSocket();
  await using place = await crashPlace(hook.url, { BERTH_CHECK: `clamd:${socket}` });
  const rejections = await place.deaths('reject for a session', { together: 1, before: inCheck(place, 'bad!') });
  const ends = await place.deaths('end rejected', { together: 1, before: inCheck(place, 'bad!') });
  assert.deepEqual(
    [rejections, ends].map((deaths) => deaths.map(({ last }) => last.split(' ')[0])),
    [['commit:'], ['rename', 'commit:', 'mkdir', 'rename']],
  );
  const deaths = [...rejections, ...ends];
  await place.nextStart(async () => {
    const directories = deaths.flatMap(({ directory }) => directory ?? []);
    const left = await Promise.all(directories.map((directory) => stateOf(place, directory)));
    return left.every(({ states }) => states.length === 0);
  });
  assert.deepEqual(readdirSync(place.paths.transit), []);
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const { states, deliveries, rejected, storage, isThere, kept, events } = await stateOf(place, directory);
      assert.deepEqual([states, deliveries, storage, isThere, events], [[], 0, 0, false, ['rejected']]);
      assert.deepEqual([rejected.length, kept], [1, rejected]);
      assert.equal(readFileSync(join(place.paths.quarantine, directory.id, kept[0] ?? ''), 'utf8'), 'bad!');
    });
  }
  assert.equal(hook.requests.length, 0);
});

test('a release, cut off anywhere: the file is back and announced, once', async (t) => {
  await using hook = await receiver();
  const socket = checkSocket();
  await using clamd = await fakeClamd(socket);
  await using place = await crashPlace(hook.url, { BERTH_CHECK: `clamd:${socket}` });
  const deaths = await place.deaths('release', { together: 1, before: inCheck(place, 'bad!') });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['commit:', 'link', 'unlink', 'commit:'],
    deaths.map(({ last }) => last).join('; '),
  );
  await place.nextStart(isDecided(place));
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const { states, deliveries, rejected, storage, isThere, kept } = await stateOf(place, directory);
      assert.deepEqual([states, deliveries, storage, isThere], [['uploaded'], 1, 4, true]);
      assert.deepEqual([rejected, kept], [[], []]);
      assert.equal(hook.requests.filter(({ body }) => body.toString().includes(directory.id)).length, 1);
    });
  }
  assert.deepEqual(clamd.asked, [], 'an operator has decided');
});

test('a deletion from the quarantine, cut off: it can be repeated until nothing is left', async (t) => {
  const socket = checkSocket();
  await using place = await crashPlace(null, { BERTH_CHECK: `clamd:${socket}` });
  const deaths = await place.deaths('delete rejected', { together: 1, before: inCheck(place, 'bad!') });
  assert.deepEqual(
    deaths.map(({ last }) => last.split(' ')[0]),
    ['unlink', 'commit:'],
    deaths.map(({ last }) => last).join('; '),
  );
  for (const { last, directory } of deaths) {
    await t.test(`after ${last}`, async () => {
      assert.ok(directory);
      const before = await stateOf(place, directory);
      assert.deepEqual(before.kept, []);
      await place.run('delete rejected', directory);
      assert.deepEqual((await stateOf(place, directory)).rejected, []);
    });
  }
});
