/** The feed of events, followed while eight customers upload at once over real sessions. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

test('a reader that follows the feed sees every upload of eight sessions, once and in its order', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directories = await Promise.all(Array.from({ length: 4 }, () => berth.directory()));
  writeFileSync(join(place.dir, 'f'), 'content');
  const each = 40;
  const uploads = Array.from({ length: 8 }, (_, writer) => {
    const directory = directories[writer % 4] ?? assert.fail();
    const commands = Array.from({ length: each }, (_unused, i) => `put f ${writer}-${i}`);
    return sftp(place.dir, directory.login, commands);
  });
  const seen: { sequence: number; upload_id: string; data: { filename: string } }[] = [];
  await until('all have come', async () => {
    seen.push(...dataOf<typeof seen>(await berth.send('GET', `/events?after=${seen.at(-1)?.sequence ?? 0}`)));
    return seen.length >= 8 * each;
  });
  for (const { code, output } of await Promise.all(uploads)) assert.equal(code, 0, output);
  assert.deepEqual(
    seen.map(({ sequence }) => sequence),
    Array.from({ length: 8 * each }, (_, i) => i + 1),
  );
  const listed = await Promise.all(directories.map((directory) => berth.uploads(directory)));
  assert.deepEqual(
    seen.map(({ upload_id, data }) => `${upload_id} ${data.filename}`).toSorted(),
    listed
      .flat()
      .map(({ id, filename }) => `${id} ${filename}`)
      .toSorted(),
  );
});
