/** Files that arrive as soon as a directory is live are found, because it is watched before the answer. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { startBerth, webhookOf } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';

test('a file that an administrator puts into a new directory at once is announced', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  await berth.service().covered; // the look at everything would find it too
  const directory = await berth.directory();
  writeFileSync(join(pathsOf(berth.config).jail(directory.username), 'files', 'seed.csv'), 'first');
  const { filename, size_bytes } = webhookOf(await berth.receiver.next());
  assert.deepEqual([filename, size_bytes], ['seed.csv', 5]);
});
