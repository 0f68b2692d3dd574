/** Files under temporary names whose session ended unseen are found, however many others wait for theirs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/db/open.ts';
import { WaitingFiles } from '../../src/uploads/waiting-files.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { recordFiles } from '../support/record-files.ts';
import { scratch } from '../support/scratch.ts';

test('a session that lives and has left a thousand of them does not hide the one that another has left', async () => {
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
