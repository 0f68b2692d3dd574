/** Files under temporary names whose session ended unseen are found, however many others wait for theirs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { WaitingFiles } from '../../../src/arrivals/uploads/waiting-files.ts';
import { fill } from '../../bench/filled.ts';
import { firstAccount } from '../../bench/served.ts';
import { recordingPlace, WRITE } from '../../support/recording-place.ts';
import { recordFiles } from '../../support/record-files.ts';
import { scratch } from '../../support/scratch.ts';

test('a thousand temporary files of a live session do not hide the one that another session left', async () => {
  using place = scratch();
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: 2, filesEach: 0 });
  const database = await openDatabase(config.database);
  const directories = await database.reads.selectFrom('directories').select('id').orderBy('id').execute();
  const [crowded = '', other = ''] = directories.map(({ id }) => id);
  const many = Array.from({ length: 1000 }, (_, index) => Buffer.from(`${index}.part`));
  await recordFiles(database, crowded, many, 'waiting');
  await database.db.updateTable('files').set({ session_pid: 1 }).execute();
  await recordFiles(database, other, [Buffer.from('a.part')], 'waiting');

  const ended: string[] = [];
  const waiting = new WaitingFiles({
    reads: database.reads,
    node: config.node,
    isRestoring: () => false,
    abandoned: ({ id }, path) => void ended.push(`${id} ${path}`),
    livePids: (id) => (id === crowded ? [1] : []),
  });
  for (let sweep = 0; sweep < 2; sweep++) await waiting.sweep();
  assert.deepEqual(ended, [`${other} a.part`]);
  await database.close();
});

const temporary = (path: string): boolean => path.endsWith('.part');

test('a session ends while its last file is being recorded: that is announced, too', async () => {
  await using at = await recordingPlace({ isTemporary: temporary });
  at.write('a.part', 'data');
  at.logged(7, `open "a.part" ${WRITE}`, 'close "a.part" bytes read 0 written 4');
  at.gone(7);
  await at.settles(['a.part 4'], ['a.part 4 uploaded']);
});

test('more than a page that one session left are announced in the order of their uploads', async () => {
  await using at = await recordingPlace({ isTemporary: temporary });
  const names = Array.from({ length: 1100 }, (_, index) => `${String((index * 7919) % 1100).padStart(4, '0')}.part`);
  for (const name of names) at.write(name, 'data');
  at.logged(7, ...names.flatMap((name) => [`open "${name}" ${WRITE}`, `close "${name}" bytes read 0 written 4`]));
  await at.parting.drained();
  assert.deepEqual(new Set((await at.rows()).map((row) => row.split(' ')[2])), new Set(['waiting']));
  const recorded = await at.db.selectFrom('files').select('path').orderBy('uploaded_at').orderBy('id').execute();
  at.gone(7);
  await at.parting.drained();
  // The history keeps the order in which they were announced.
  const history = await at.db
    .selectFrom('transfers')
    .select('path')
    .where('event', '=', 'uploaded')
    .orderBy('id')
    .execute();
  assert.deepEqual(
    history.map(({ path }) => path),
    recorded.map(({ path }) => path.toString()),
  );
});
