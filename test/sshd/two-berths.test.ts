/** Two berths on one machine give out the same UIDs: each ignores the sessions and jails of the other. */
import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { checkFolders } from '../../src/operating/doctor/checks/machine.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { webhookOf } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const [shared, sharedOther] = [sharedBerth(), sharedBerth()];

/** Two berths on this machine, with a directory each and a session that writes in the second one's. */
async function neighbours() {
  await using parts = new AsyncDisposableStack();
  const berth = parts.use(await shared());
  const other = parts.use(await sharedOther());
  const [directory, namesake] = [await berth.directory(), await other.directory()];
  const session = await sftpSession(parts.use(await other.connect(namesake)));
  const handle = await session.open('theirs', 'w');
  const owned = parts.move();
  return { berth, other, directory, namesake, session, handle, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test('a live session of another berth delays nothing here, and its own berth adopts it', async () => {
  await using both = await neighbours();
  const { berth, other, directory, session, handle } = both;
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

test('a delete ends no session of another berth that has given out the same UID', async () => {
  await using both = await neighbours();
  const { berth, other, directory, namesake, session, handle } = both;
  assert.equal(statSync(directory.files).uid, statSync(namesake.files).uid);
  await using doomed = await berth.connect(directory);

  assert.equal((await berth.send('DELETE', `/directories/${directory.id}`)).status, 204);
  await doomed.closed;
  await session.write(handle, 'whole');
  await session.close(handle);
  assert.equal(webhookOf(await other.receiver.next()).size_bytes, 5);
});

test('a second berth with the same jail folder is refused in words, and the first goes on', async () => {
  await using berth = await shared();
  const { place: ours } = berth;
  using theirs = scratch({ BERTH_JAIL_DIR: ours.config.jailDir });
  const words = new RegExp(
    `${ours.config.jailDir} belongs to the berth whose BERTH_STATE_DIR is ${ours.config.stateDir}`,
  );
  await assert.rejects(startService(theirs.config, { log: createLog('error') }), words);
  await assert.rejects(prepareSshd(theirs.config, createLog('silent')), words);
  const [found] = await checkFolders(theirs.config, systemClock());
  assert.match(found?.text ?? '', words);
  assert.match(found?.remedy ?? '', /^choose another BERTH_JAIL_DIR/);

  await berth.stop();
  await assert.rejects(startService(theirs.config, { log: createLog('error') }), words);
  await berth.start();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  await (await sftpSession(connection)).put('heard', 'x');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'heard');
});
