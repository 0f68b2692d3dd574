/** An account's storage: summed each time, except for large accounts, whose sum is cached for a while. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStored } from '../../src/rules/directories/view.ts';
import { directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

test(
  'a small account is counted each time, one of 10,000 directories at most once a minute',
  { timeout: 120_000 },
  async (t) => {
    using place = scratch();
    await using api = await hosted(place);
    const { db, reads } = api.database;
    let passed = 0;
    const began = performance.now();
    t.mock.method(performance, 'now', () => began + passed);
    const rows = (count: number, prefix: string) =>
      Array.from({ length: count }, (_, n) =>
        directoryRow({ name: prefix, sftp_username: `${prefix}-${n}`, storage_bytes: 2 }),
      );
    const [small, large] = [await newAccount(db), await newAccount(db)];
    await insertDirectories(db, small, rows(3, 'small'));
    await insertDirectories(db, large, rows(10_000, 'large'));
    const stored = createStored(reads);
    assert.deepEqual(
      [await stored(small), await stored(large)],
      [
        { directories: 3, bytes: 6 },
        { directories: 10_000, bytes: 20_000 },
      ],
    );
    await insertDirectories(db, small, rows(1, 'one-more'));
    await insertDirectories(db, large, rows(1, 'another'));
    assert.deepEqual([(await stored(small)).directories, (await stored(large)).directories], [4, 10_000]);
    passed = 61_000;
    assert.equal((await stored(large)).directories, 10_001);
  },
);
