/** What the log does not say: a disk that stores nothing, a commit without an answer, a file that the API has placed. */
import assert from 'node:assert/strict';
import { renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { fileStat } from '../../../../src/arrivals/uploads/record/file-stat.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { DatabaseUnavailable } from '../../../../src/foundation/db/away.ts';
import { recordingPlace, type RecordingPlaceOptions, WRITE } from '../../../support/recording-place.ts';

/** The first sync of a file fails, as fdatasync(2) does when the kernel could not write its pages. */
class FailsOnce extends FileSyncer {
  syncs = 0;

  override async file(root: string, fd: number, size: number): Promise<void> {
    this.syncs += 1;
    if (this.syncs === 1) throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    await super.file(root, fd, size);
  }
}

test('an upload whose sync has failed is partial, until it is sent again', async () => {
  const syncer = new FailsOnce({ isOn: true });
  await using place = await recordingPlace({ syncer });
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${WRITE}`, 'close "/files/a" bytes read 0 written 5');
  await place.comesTo([], ['a 5 partial']);
  place.write('a', 'second');
  place.logged(1, `open "/files/a" ${WRITE}`, 'close "/files/a" bytes read 0 written 6');
  await place.comesTo(['a 6'], ['a 6 uploaded']);
});

test('so is a file without an explanation', async () => {
  const syncer = new FailsOnce({ isOn: true });
  await using place = await recordingPlace({ syncer });
  place.write('a', 'first');
  place.touch('a');
  await place.comes([], ['a 5 partial']);
  await place.comesTo([], ['a 5 partial']);
  assert.equal(syncer.syncs, 1);
});

// A commit whose answer is lost, for example because the connection to the database broke: it may have been made, and
// is tried again.

/** The first `commits` commits are done, but report failure. */
function unheard(commits: number): RecordingPlaceOptions & { left(): number } {
  let left = commits;
  return {
    left: () => left,
    committed() {
      if (left === 0) return;
      left -= 1;
      throw new DatabaseUnavailable(new Error('Connection terminated unexpectedly'));
    },
  };
}

const OPEN = 'flags WRITE,CREATE,TRUNCATE mode 0666';

for (const commits of [1, 3]) {
  test(`${commits} of them: uploads are announced once`, async () => {
    const answers = unheard(commits);
    await using place = await recordingPlace(answers);
    place.write('a', 'first');
    place.write('b', 'other');
    place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
    place.logged(1, `open "/files/b" ${OPEN}`, 'close "/files/b" bytes read 0 written 5');
    await place.comesTo(['a 5', 'b 5'], ['a 5 uploaded', 'b 5 uploaded']);
    assert.equal(answers.left(), 0);
  });
}

test('one that is overwritten while it is in doubt was uploaded twice', async () => {
  await using place = await recordingPlace(unheard(1));
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
  await place.comes(['a 5'], ['a 5 uploaded']);
  place.write('a', 'another');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 7');
  await place.comesTo(['a 5', 'a 7'], ['a 7 uploaded']);
});

test('one that is removed while it is in doubt is announced once', async () => {
  await using place = await recordingPlace(unheard(1));
  place.write('a', 'first');
  place.logged(1, `open "/files/a" ${OPEN}`, 'close "/files/a" bytes read 0 written 5');
  await place.comes(['a 5'], ['a 5 uploaded']);
  rmSync(join(place.files, 'a'));
  place.logged(1, 'remove name "/files/a"');
  await place.comesTo(['a 5'], []);
});

// An upload that the API replaces with a file before berth has read the log.

const LINES = ['open "a" flags WRITE,CREATE,TRUNCATE mode 0644', 'close "a" bytes read 0 written 5'];

/** As `placing.ts` does. */
async function put(at: Awaited<ReturnType<typeof recordingPlace>>, path: string, data: string): Promise<void> {
  at.write('coming', data);
  const { inode, mtime, size_bytes } = fileStat(statSync(join(at.files, 'coming')));
  await at.db
    .insertInto('placements')
    .values({ directory_id: at.jail.id, inode, mtime, size_bytes, inserted_at: 0 })
    .execute();
  renameSync(join(at.files, 'coming'), join(at.files, path));
}

for (const isRecorded of [false, true]) {
  test(`an upload is announced, and not the file that the API has put in its place, ${isRecorded ? 'which is' : 'neither of which is'} recorded`, async () => {
    await using at = await recordingPlace();
    at.logged(1);
    at.write('a', 'xxxxx');
    const said = systemClock().now();
    await put(at, 'a', 'xxxxxxx');
    if (isRecorded) {
      at.touch('a');
      await at.comes([], ['a 7 placed']);
    }
    for (const event of LINES.map(readEvent))
      at.parting.recorder.add(at.jail, { pid: 1, event, at: said, isFresh: true });
    // Without a look, berth does not know the other file.
    await at.comes(['a 5'], isRecorded ? ['a 7 placed'] : []);
    at.touch('a');
    await at.settles(['a 5'], ['a 7 placed']);
  });
}
