/** The background removal of rows: what fails is tried again. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { createRowRemoval } from '../../../src/rules/directories/row-removal.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import { recordingHost } from '../../support/recording-host.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

test('a removal that fails is tried again, and others go on meanwhile', async () => {
  using place = scratch();
  mkdirSync(place.config.stateDir);
  const database = await openDatabase(place.config.database);
  let failures = 0;
  const failing = new Proxy(database.db, {
    get(db, property) {
      if (property === 'transaction' && failures < 2) {
        failures += 1;
        throw new Error('as if the disk were full');
      }
      const value: unknown = Reflect.get(db, property, db);
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
