/** Slugs and usernames from any name; what counts as a full disk; the background removal of rows. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { fc } from '../../support/fast-check.ts';
import { isFull } from '../../../src/foundation/base/errors.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { generateUsername, slugOf } from '../../../src/rules/directories/identity.ts';
import { createRowRemoval } from '../../../src/rules/directories/row-removal.ts';
import { refusingWhenFull } from '../../../src/rules/directories/storage-full.ts';
import { until } from '../../support/poll.ts';
import { recordingHost } from '../../support/recording-host.ts';
import { scratch } from '../../support/scratch.ts';

test('names become slugs as one would write them', () => {
  const cases = {
    'Acme GmbH': 'acme-gmbh',
    'Acme Corp': 'acme-corp',
    'Über & Söhne': 'ueber-and-soehne',
    '  a  ': 'a',
    日本語: 'directory',
    '!!!': 'directory',
  };
  for (const [name, slug] of Object.entries(cases)) assert.equal(slugOf(name), slug);
});

test('any name gives a slug of words and a username that every system accepts, never twice', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (name) => {
      const slug = slugOf(name);
      assert.match(slug, /^[a-z0-9]+(-[a-z0-9]+)*$/);
      const username = generateUsername(slug);
      assert.match(username, /^[a-z][a-z0-9]*(-[a-z0-9]+)*-[a-z0-9]{8}$/);
      assert.ok(username.length <= 32);
      assert.ok(!seen.has(username));
      seen.add(username);
    }),
  );
  assert.match(generateUsername('2026-reports'), /^d-2026-reports-[a-z0-9]{8}$/);
  assert.match(generateUsername(`${'a'.repeat(22)}-b`), /^a{22}-[a-z0-9]{8}$/);
});

// What counts as a full disk.

test('a write over a quota of the kernel is refused as on a full disk, though libuv has no name for its error', async () => {
  // As Node 24 throws it on an ext4 with usrquota.
  const error = Object.assign(new Error('Unknown system error -122: Unknown system error -122, write'), {
    errno: -122,
    code: 'Unknown system error -122',
    syscall: 'write',
  });
  assert.equal(isFull(error), true);
  await assert.rejects(
    refusingWhenFull(() => Promise.reject(error)),
    { code: 'storage_full' },
  );
  assert.equal(isFull(Object.assign(new Error('EIO: i/o error, write'), { errno: -5, code: 'EIO' })), false);
  for (const other of [undefined, null, '-122', new Error('-122')]) assert.equal(isFull(other), false);
});

// The background removal of rows: what fails is tried again.

test('a removal that fails is tried again, and others go on meanwhile', async () => {
  using place = scratch();
  mkdirSync(place.config.stateDir);
  const database = await openDatabase(place.config.database);
  let failures = 0;
  const failing = new Proxy(database.db, {
    get(db, name) {
      if (name === 'transaction' && failures < 2) {
        failures += 1;
        throw new Error('as if the disk were full');
      }
      const value: unknown = Reflect.get(db, name, db);
      return typeof value === 'function' ? value.bind(db) : value;
    },
  });
  const removal = createRowRemoval({
    database: { ...database, db: failing },
    log: createLog('silent'),
    host: recordingHost(),
    retryAfterMs: 5,
  });
  for (const id of ['a', 'b', 'c']) {
    await database.db.insertInto('unapplied').values({ directory_id: id }).execute();
    removal.add(id);
  }
  await until('all are removed', () => !removal.has('a') && !removal.has('b') && !removal.has('c'));
  assert.equal(failures, 2);
  assert.deepEqual(await database.db.selectFrom('unapplied').selectAll().execute(), []);
  await removal.close();
  await database.close();
});
