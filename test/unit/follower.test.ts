/** Following the transfer log: who waits for whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/clock.ts';
import { openDatabase } from '../../src/db/open.ts';
import { createLog } from '../../src/log.ts';
import { createFollower } from '../../src/uploads/log/follower.ts';
import { recording } from '../support/recording.ts';
import { scratch } from '../support/scratch.ts';

test('lines wait while too many looks are under way, but not for looks that wait for them', async () => {
  using scene = scratch();
  const database = await openDatabase(`${scene.dir}/berth.db`);
  await using recorded = recording({ database, filesRoot: () => scene.dir });
  const place = { id: 'd-1', sftp_username: 'u-1' };
  const { ledger, sessions, interpreter } = recorded;
  const seen: string[] = [];
  const follower = createFollower({
    clock: systemClock(),
    log: createLog('silent'),
    filesRoot: () => scene.dir,
    queries: { directoryOf: async () => place, directoryOfUid: async () => place },
    ledger: { pending: () => 10_000, release: ledger.release },
    sessions,
    interpreter: { ...interpreter, interpret: (_, event) => void seen.push(event.kind) },
    heldFiles: { isHeldBy: () => false, isHeldByAny: async () => false, heldBy: () => [] },
    barrier: { passed: async () => undefined, cameBack: () => undefined },
    firstUid: 1,
    addressOf: () => undefined,
    live: () => undefined,
    lost: () => undefined,
  });
  interpreter.begin(7, '127.0.0.1', place, 1);
  follower.follow([{ at: 1, pid: 7, text: 'close "a" bytes read 0 written 4' }]);
  await sleep(50);
  assert.deepEqual(seen, []);
  await follower.caughtUp(place.id);
  assert.equal(seen.length, 1);
  await follower.close();
  await database.close();
});
