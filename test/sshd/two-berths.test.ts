/** Two berths on one machine give out the same UIDs: the sessions of one are nothing to the other. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';

test('a live session of another berth holds up nothing here, and its own berth takes it up', async () => {
  using ours = scratch();
  using theirs = scratch();
  await using berth = await startBerth(ours);
  await using other = await startBerth(theirs);
  const directory = await berth.directory();
  const namesake = await other.directory();
  await using connection = await other.connect(namesake);
  const session = await sftpSession(connection);
  const handle = await session.open('theirs', 'w');
  await session.write(handle, 'half');

  await Promise.all([berth.stop(), other.stop()]);
  await Promise.all([berth.start(), other.start()]);
  // A temporary name would wait for the session that may rename it.
  writeFileSync(join(directory.files, 'copied.part'), 'by an administrator');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'copied.part');
  await session.write(handle, ' whole', 4);
  await session.close(handle);
  assert.equal(webhookOf(await other.receiver.next()).size_bytes, 10);
  assert.deepEqual([berth.receiver.requests.length, other.receiver.requests.length], [1, 1]);
});
