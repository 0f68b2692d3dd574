/** Sessions whose process died without a word, while the log of what they did before is still to be followed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { createLog } from '../../src/log.ts';
import { Follower } from '../../src/uploads/log/follower.ts';
import { UnheardSessions } from '../../src/uploads/log/unheard-sessions.ts';
import { WriteBarrier } from '../../src/uploads/log/write-barrier.ts';
import { recordingPlace } from '../support/recording-place.ts';

/** More than a lane's turn. */
const FILES = 200;

async function deadProcess(): Promise<number> {
  const child = spawn('true');
  await once(child, 'exit');
  return child.pid ?? 0;
}

test('a process that has died is gone when all it said has been followed, however far behind the log is', async () => {
  await using at = await recordingPlace();
  const { jail, parting } = at;
  const pid = await deadProcess();
  const log = createLog('silent');
  const jails = { byUid: async () => undefined, byUsername: async () => undefined };
  const unheard: UnheardSessions = new UnheardSessions({
    ...parting,
    clock: systemClock(),
    filesRoot: () => at.files,
    jails,
    firstUid: 0,
    addressOf: () => undefined,
    live: () => undefined,
    lost: () => assert.fail('lines were lost'),
    caughtUp: (id) => follower.caughtUp(id),
  });
  // So many looks are due that the directory's lines are followed slowly.
  const schedule = { pending: () => 1000 };
  const barrier = new WriteBarrier(() => []);
  const follower = new Follower({ ...parting, log, jails, schedule, unheard, barrier, live: () => undefined });

  parting.interpreter.begin(pid, '127.0.0.1', jail, 1);
  const names = Array.from({ length: FILES }, (_, number) => `file-${String(number).padStart(3, '0')}`);
  const texts = names.flatMap((name) => [
    `open "${name}" flags WRITE,CREATE,TRUNCATE mode 0644`,
    `close "${name}" bytes read 0 written 4`,
  ]);
  for (const name of names) at.write(name, 'data');
  follower.follow(texts.map((text) => ({ at: systemClock().now(), pid, text })));
  for (let sweep = 0; sweep < 2; sweep += 1) await unheard.sweep();
  assert.equal(parting.sessions.get(pid), undefined);
  await at.settles(
    names.map((name) => `${name} 4`),
    names.map((name) => `${name} 4 uploaded`),
  );
});
