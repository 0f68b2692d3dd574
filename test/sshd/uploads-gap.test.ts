/** Lost lines of the log: files that changed until then are partial, even if a later `serve` finds them. */
import assert from 'node:assert/strict';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

test('an upload cut off in a gap of the log is not taken for a copy after a compaction and a restart', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const journal = join(berth.config.stateDir, 'journal', directory.username);
  const read = (): string => (existsSync(journal) ? readFileSync(journal, 'utf8') : '');
  await berth.stop();
  // It ends later than now, so that the file of below comes within it.
  const gapEnd = Date.now() * 1000 + 3_600_000_000;
  appendFileSync(journal, `${JSON.stringify({ at: gapEnd, isGap: true })}\n`);
  await berth.start();
  await until('the journal is compacted', () => !read().includes('isGap'));
  await berth.stop();
  writeFileSync(join(directory.files, 'stump'), 'a part');
  await berth.start();
  await until('it is counted', async () => (await berth.storage(directory)) === 6);
  assert.deepEqual(await berth.uploads(directory), []);
  assert.deepEqual(berth.receiver.requests.map(webhookOf), []);
});
