/** BERTH_UNANNOUNCED_NAMES: uploads that are listed, and never announced. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('uploads of the names in the setting are listed, and neither sent nor in the feed', async () => {
  using place = scratch({
    BERTH_TEMP_NAMES: '',
    BERTH_UNANNOUNCED_NAMES: '.DS_Store ._* Thumbs.db desktop.ini ~$* .~lock.*#',
  });
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const session = await sftpSession(await berth.connect(directory));
  const quiet = ['.DS_Store', '._report.docx', 'Thumbs.db', 'desktop.ini', '~$report.docx', '.~lock.report.ods#'];
  const loud = ['report.docx', 'Thumbs.db.csv', 'x~$report'];
  for (const name of [...quiet, ...loud]) {
    const handle = await session.open(name, 'w');
    await session.write(handle, 'data');
    await session.close(handle);
  }
  await until('all are listed', async () => (await berth.uploads(directory)).length === quiet.length + loud.length);
  const announced = [];
  for (const _ of loud) announced.push(webhookOf(await berth.receiver.next()).filename);
  assert.deepEqual(announced.toSorted(), loud.toSorted());
  const { json } = await berth.send('GET', '/events');
  const feed = (json as { data: { data: { filename: string } }[] }).data.map(({ data }) => data.filename);
  assert.deepEqual(feed.toSorted(), loud.toSorted());
  assert.equal(berth.receiver.requests.length, loud.length);
});
