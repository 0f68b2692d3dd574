/** Files older than `retention_days`, by the server's clock at their upload, go; nothing else does. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Clock, DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { checkClock } from '../../src/operating/doctor/checks/machine.ts';
import { startBerth } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';

const shared = sharedBerth();

function ahead(days: number): Clock {
  const clock = systemClock();
  return { now: () => clock.now() + days * DAY };
}

/** How many days ahead the shared berth's clock is: it only goes forward. */
let passed = 0;

function later(days: number): Clock {
  passed += days;
  return ahead(passed);
}

test('expired files go with their rows at the start, whatever mtime says; a directory without retention keeps its own', async () => {
  await using berth = await shared();
  const { place } = berth;
  const expiring = await berth.directory({ retention_days: 7 });
  const keeping = await berth.directory();
  const file = join(place.dir, 'file');
  writeFileSync(file, 'x');
  utimesSync(file, new Date('2020-01-01'), new Date('2020-01-01'));
  for (const { login } of [expiring, keeping])
    await sftp(place.dir, login, ['put -p file', 'mkdir d', 'put -p file d/file']);
  for (let i = 0; i < 4; i++) await berth.receiver.next();

  await berth.stop();
  await berth.start(later(6));
  await berth.service().covered;
  assert.equal((await berth.uploads(expiring)).length, 2, 'an old mtime does not make an upload old');

  await berth.stop();
  await berth.start(later(2));
  await until('the rows have gone', async () => (await berth.uploads(expiring)).length === 0);
  assert.equal(existsSync(join(expiring.files, 'file')), false);
  assert.equal(existsSync(join(expiring.files, 'd', 'file')), false);
  assert.equal(await berth.storage(expiring), 0);
  assert.equal((await berth.uploads(keeping)).length, 2);
  assert.equal(berth.receiver.requests.length, 4);
  const why = await onDatabase(berth, ({ db }) =>
    db.selectFrom('transfers').select(['reason', 'address']).where('event', '=', 'removed').execute(),
  );
  const byRetention = { reason: 'retention (7 days)', address: null };
  assert.deepEqual(why, [byRetention, byRetention], 'the history says that retention removed them');
});

test('a start with a clock that is ahead removes nothing, and says so until the clock is confirmed', async () => {
  using place = scratch({ BERTH_METRICS_PORT: '0' });
  await using berth = await startBerth(place);
  const directory = await berth.directory({ retention_days: 30 });
  writeFileSync(join(place.dir, 'file'), 'x');
  await sftp(place.dir, directory.login, ['put file']);
  await berth.receiver.next();
  const clockLead = async (): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${berth.service().metricsPort}/metrics`);
    return Number(/^berth_clock_lead_seconds (.*)$/m.exec(await answer.text())?.[1]);
  };
  assert.equal(await clockLead(), 0);

  await berth.stop();
  await berth.start(ahead(40), { isConfirmed: false });
  await berth.service().covered;
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(Math.round((await clockLead()) / 86_400), 40);
  const found = await checkClock(berth.config, ahead(40));
  const finding = found.find(({ text }) => text.startsWith('the clock is ahead by 40.0 days'));
  assert.deepEqual([finding?.verdict, finding?.remedy?.split(';')[0]], ['warn', 'if it is right: berth clock confirm']);

  await berth.stop();
  const { status, stdout } = await runHere(place.environment, 'clock', 'confirm');
  assert.deepEqual([status, stdout.includes('is right; it seemed 40.0 days off')], [0, true], stdout);
  await berth.start();
  await berth.service().covered;
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(await clockLead(), 0);
});

test('a folder swapped for a link leads retention nowhere', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory({ retention_days: 1 });
  writeFileSync(join(place.dir, 'file'), 'x');
  await sftp(place.dir, directory.login, ['mkdir d', 'put file d/file']);
  await berth.receiver.next();
  await berth.stop();
  const outside = join(place.dir, 'outside');
  mkdirSync(outside);
  // The very file that the row was written for, so that only the link keeps retention from it.
  renameSync(join(directory.files, 'd', 'file'), join(outside, 'file'));
  rmSync(join(directory.files, 'd'), { recursive: true });
  symlinkSync(outside, join(directory.files, 'd'));
  await berth.start(later(2));
  await until('the row has gone', async () => (await berth.storage(directory)) === 0);
  assert.ok(existsSync(join(outside, 'file')));
});

test('a file that is being overwritten when it expires stays', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ retention_days: 1 });
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('file', 'old');
  await berth.receiver.next();
  const handle = await session.open('file', 'r+');
  await berth.stop();
  await berth.start(later(2));
  await berth.service().covered;
  assert.ok(existsSync(join(directory.files, 'file')));
  await session.write(handle, 'new');
  await session.close(handle);
  await berth.receiver.next();
  assert.equal((await berth.uploads(directory)).length, 1);
});
