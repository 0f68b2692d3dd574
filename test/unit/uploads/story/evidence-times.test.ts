/** When an upload arrived: at the close that completed it, whatever happens to other handles of its file. */
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { expireNow } from '../../../support/expire-now.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

type Place = Awaited<ReturnType<typeof recordingPlace>>;

const EXCLUSIVE = WRITE.replace('TRUNCATE', 'EXCL');

/** The upload of `a` arrived after `from`, is announced so, and outlives retention. */
async function arrivedSince(at: Place, from: number): Promise<void> {
  await at.comes(['a 5'], ['a 5 uploaded']);
  const { uploaded_at } = await at.db.selectFrom('files').select('uploaded_at').executeTakeFirstOrThrow();
  assert.ok(uploaded_at >= from && uploaded_at <= systemClock().now(), String(uploaded_at));
  const times = await at.db.selectFrom('transfers').select(['event', 'at']).where('at', '<', from).execute();
  assert.deepEqual(times, []);
  await expireNow(at);
  assert.ok(existsSync(join(at.files, 'a')), 'retention removed the file');
}

/** Two sessions open `a` for writing, and one of them closes it. */
async function writtenByTwo(at: Place): Promise<void> {
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.logged(2, `open "a" ${WRITE}`, 'close "a" bytes read 0 written 5');
  await at.parting.recorder.read(at.jail.id);
}

test('a refused open of another session ends last: the upload arrived when its own handle was closed', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`);
  at.logged(2, `open "a" ${EXCLUSIVE}`);
  at.logged(1, 'close "a" bytes read 0 written 5');
  at.logged(2, 'sent status Failure');
  await arrivedSince(at, from);
});

test('the kernel does not know a handle after a restart: the upload arrived when the other was closed', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  await writtenByTwo(at);
  at.parting.recorder.storyOf(at.jail).compareHandles(1, [])([], systemClock().now());
  await arrivedSince(at, from);
});

test('a session continues after its lines were lost: none of its times is 1970', async () => {
  await using at = await recordingPlace();
  const from = systemClock().now();
  await writtenByTwo(at);
  const story = at.parting.recorder.storyOf(at.jail);
  story.begin({ by: { pid: 1, address: '' }, openedAt: undefined, born: undefined }, systemClock().now());
  assert.equal(statSync(join(at.files, 'a')).size, 5);
  await arrivedSince(at, from);
});
