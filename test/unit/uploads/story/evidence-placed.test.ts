/** An upload that the API replaces with a file before berth has read the log. */
import { renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { fileStat } from '../../../../src/arrivals/uploads/record/file-stat.ts';
import { recordingPlace } from '../../../support/recording-place.ts';

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
