/** Where a new directory goes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { openDatabaseSession } from '../../src/foundation/db/session.ts';
import { serverTime } from '../../src/foundation/db/shared.ts';
import { chooseHome, lockOf } from '../../src/operating/nodes/list.ts';
import { freshDatabase, postgresOnly } from '../support/postgres.ts';

const SECOND = 1_000_000;

test(
  'the most free space decides; among those within 5 %, the fewest directories; the dead and drained get none',
  postgresOnly,
  async () => {
    await using parts = new AsyncDisposableStack();
    const made = freshDatabase();
    parts.defer(() => made.drop());
    const { db } = parts.adopt(await openDatabase(made.url), (opened) => opened.close());

    async function node(name: string, free_bytes: number): Promise<void> {
      const options = { name, lock: lockOf(name), channels: [], onMessage: () => undefined, onLost: () => undefined };
      const session = await openDatabaseSession(made.url, options);
      assert.ok(session);
      parts.adopt(session, (opened) => opened.close());
      const row = { name, free_bytes, sftp_host: name, sftp_port: 22, drained_at: null };
      await db
        .insertInto('nodes')
        .values({ ...row, seen_at: serverTime, inserted_at: 0 })
        .execute();
    }
    // As they would have said it just now: the test may be slow.
    const beat = () => db.updateTable('nodes').set({ seen_at: serverTime }).where('seen_at', '>', 0).execute();
    const chosen = async (here = 'none', tried: string[] = []): Promise<string> => {
      await beat();
      return (await db.transaction().execute((tx) => chooseHome(tx, here, tried))).node;
    };
    const set = (name: string, row: { free_bytes?: number; drained_at?: number; seen_at?: number }) =>
      db.updateTable('nodes').set(row).where('name', '=', name).execute();

    await node('full', 90 * SECOND);
    await node('most', 100 * SECOND);
    await node('near', 96 * SECOND);
    assert.equal(await chosen(), 'most', 'the same: by name');
    assert.equal(await chosen('near'), 'near', 'the same on the node that was asked');
    assert.equal(await chosen('full'), 'most');
    assert.equal(await chosen('none', ['most']), 'near');
    await set('near', { drained_at: 1 });
    assert.equal(await chosen('near'), 'most');
    assert.equal(await chosen('near', ['most']), 'full');
    await set('most', { seen_at: 0 });
    assert.equal(await chosen(), 'full');
    assert.equal(await chosen('most'), 'most', 'who asks lives');
    await assert.rejects(chosen('full', ['full']), { code: 'home_unavailable' });
  },
);
